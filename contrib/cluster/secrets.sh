#!/bin/sh
# Makes the secrets of compose.yaml, in contrib/cluster/secrets: once, and readable for you alone.
set -eu
umask 077
folder=$(dirname "$0")/secrets
mkdir "$folder" || { echo "$folder is there already; remove it to make new secrets" >&2; exit 1; }

secret() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }

nats=$(secret) postgres=$(secret) grafana=$(secret)
echo "NATS_PASSWORD=$nats" >"$folder/nats.env"
echo "POSTGRES_PASSWORD=$postgres" >"$folder/postgres.env"
echo "GF_SECURITY_ADMIN_PASSWORD=$grafana" >"$folder/grafana.env"
cat >"$folder/node.env" <<END
MOOTHALL_BUS=nats://hall:$nats@nats:4222
MOOTHALL_STORE=postgresql://hall:$postgres@postgres/hall
MOOTHALL_STORE_SECRET=$(secret)
MOOTHALL_ADMIN_KEY=$(secret)
END
echo "The admin key is in $folder/node.env, the password of Grafana's user admin in $folder/grafana.env"
