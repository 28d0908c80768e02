# A supervisor that starts no model: it writes its state, and ends as it is told. For crews in tests.
state() { printf '{"status": "%s", "pid": %s}' "$1" $$ > "$STATE_DIR/.new" && mv "$STATE_DIR/.new" "$STATE_DIR/state.json"; }
trap 'state stopped; kill $child; exit 0' TERM
trap 'echo woken >> "$STATE_DIR/woken"' USR1
echo "$@" >> "$STATE_DIR/starts"
sleep 1000 & child=$!
echo '{}' > "$STATE_DIR/niki-state.json"
state running
while :; do wait $child; done
