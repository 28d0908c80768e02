// Keccak-256 with its original padding, which envelopes of the mesh are hashed with (mesh wire 2.1). Pure.

const RATE = 136; // bytes of a block
const MASK = (1n << 64n) - 1n;
const TURNS = [0, 1, 62, 28, 27, 36, 44, 6, 55, 20, 3, 10, 43, 25, 39, 41, 45, 15, 21, 8, 18, 2, 61, 56, 14];

/** The constants of the 24 rounds come out of a shift register. */
const ROUNDS = (() => {
  let register = 1;
  const bit = () => {
    const out = register & 1;
    register = register & 0x80 ? ((register << 1) ^ 0x171) & 0xff : register << 1;
    return out;
  };
  return Array.from({ length: 24 }, () => {
    let constant = 0n;
    for (let power = 0; power < 7; power++) if (bit()) constant |= 1n << BigInt((1 << power) - 1);
    return constant;
  });
})();

const turned = (lane, by) => (by ? ((lane << BigInt(by)) | (lane >> BigInt(64 - by))) & MASK : lane);

function permute(lanes) {
  for (const constant of ROUNDS) {
    const parity = [0, 1, 2, 3, 4].map((x) => lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20]);
    for (let place = 0; place < 25; place++) lanes[place] ^= parity[(place + 4) % 5] ^ turned(parity[(place + 1) % 5], 1);
    const moved = [];
    for (let place = 0; place < 25; place++) {
      const [x, y] = [place % 5, Math.floor(place / 5)];
      moved[y + 5 * ((2 * x + 3 * y) % 5)] = turned(lanes[place], TURNS[place]);
    }
    for (let place = 0; place < 25; place++) {
      const row = place - (place % 5);
      lanes[place] = moved[place] ^ (~moved[row + ((place + 1) % 5)] & MASK & moved[row + ((place + 2) % 5)]);
    }
    lanes[0] ^= constant;
  }
}

/** The 32 bytes of the hash. */
export function keccak256(bytes) {
  const padded = new Uint8Array((Math.floor(bytes.length / RATE) + 1) * RATE);
  padded.set(bytes);
  padded[bytes.length] ^= 0x01;
  padded[padded.length - 1] ^= 0x80;
  const view = new DataView(padded.buffer);
  const lanes = Array(25).fill(0n);
  for (let block = 0; block < padded.length; block += RATE) {
    for (let lane = 0; lane < RATE / 8; lane++) lanes[lane] ^= view.getBigUint64(block + 8 * lane, true);
    permute(lanes);
  }
  const hash = new DataView(new ArrayBuffer(32));
  for (let lane = 0; lane < 4; lane++) hash.setBigUint64(8 * lane, lanes[lane], true);
  return new Uint8Array(hash.buffer);
}
