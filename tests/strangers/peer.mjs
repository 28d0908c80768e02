// A peer of the mesh on js-libp2p. Each line on standard input is a command in JSON; its answer is a line on standard
// output. The first line is the address that it listens on.

import { generateKeyPairFromSeed } from '@libp2p/crypto/keys'
import { gossipsub } from '@libp2p/gossipsub'
import { identify, identifyPush } from '@libp2p/identify'
import { noise } from '@libp2p/noise'
import { ping } from '@libp2p/ping'
import { tcp } from '@libp2p/tcp'
import { yamux } from '@libp2p/yamux'
import { multiaddr } from '@multiformats/multiaddr'
import { createLibp2p } from 'libp2p'
import { createHash } from 'node:crypto'
import { createInterface } from 'node:readline'

const BILATERAL = '/0x01/bilateral/1.0.0'
const ACK = Buffer.from('\x03\0\0\0ACK')
const STREAMS = 60 // at once; js-libp2p opens 64 for one protocol

const node = await createLibp2p({
  privateKey: await generateKeyPairFromSeed('Ed25519', Buffer.from(process.argv[1], 'hex')),
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: {
    identify: identify(),
    push: identifyPush({ debounce: 0 }),
    ping: ping(),
    pubsub: gossipsub({
      msgIdFn: (message) => Buffer.from(`${message.from}${message.sequenceNumber}`),
      heartbeatInterval: 1000
    })
  }
})
const pubsub = node.services.pubsub

const digest = (data) => createHash('sha256').update(data).digest('hex')

// What arrived, as hashes in the order of arrival; and who waits for how much.
class Arrivals {
  hashes = []
  waiting = []
  add (data) {
    this.hashes.push(digest(data))
    this.waiting = this.waiting.filter(([count, done]) => this.hashes.length < count || done())
  }
  async until (count) {
    if (this.hashes.length < count) await new Promise((resolve) => this.waiting.push([count, resolve]))
    return this.hashes
  }
}
const messages = new Arrivals()
const envelopes = new Arrivals()
const identified = []
let howToAnswer = 'ack'

const read = async (stream) => {
  const parts = []
  for await (const part of stream) parts.push(part.subarray())
  return Buffer.concat(parts)
}
const write = async (stream, data) => {
  if (!stream.send(data)) await stream.onDrain()
}
const framed = (envelope) => {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(envelope.length)
  return Buffer.concat([length, envelope])
}
// The number and then filling, as `content` in js_peer.py has it.
const content = (number, size) => {
  const data = Buffer.alloc(size, number % 251)
  data.writeUInt32BE(number)
  return data
}
const size = (number, small, large) => number % 100 === 0 ? large : small

const answers = {
  ack: async (stream) => {
    await write(stream, ACK)
    await stream.close()
  },
  'ack byte by byte': async (stream) => {
    for (const byte of ACK) {
      await write(stream, Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await stream.close()
  },
  'ack and stay open': (stream) => write(stream, ACK),
  'close without ack': (stream) => stream.close(),
  'half an ack': async (stream) => {
    await write(stream, ACK.subarray(0, 5))
    await stream.close()
  },
  'another word': async (stream) => {
    await write(stream, Buffer.from('\x03\0\0\0NAK'))
    await stream.close()
  },
  reset: (stream) => stream.abort(new Error('as asked')),
  nothing: () => {}
}

await node.handle(BILATERAL, async (stream) => {
  try {
    const data = await read(stream)
    if (data.readUInt32LE(0) === data.length - 4) envelopes.add(data.subarray(4))
    await answers[howToAnswer](stream)
  } catch (error) {
    process.stderr.write(`${error}\n`)
  }
}, { maxInboundStreams: 200 })

node.addEventListener('peer:identify', ({ detail }) => identified.push({
  agent_version: detail.agentVersion,
  protocol_version: detail.protocolVersion,
  protocols: detail.protocols,
  addresses: detail.listenAddrs.map(String),
  observed: String(detail.observedAddr)
}))
pubsub.addEventListener('message', ({ detail }) => messages.add(detail.data))

const until = async (target, event, holds) => {
  while (!holds()) await new Promise((resolve) => target.addEventListener(event, resolve, { once: true }))
}
const open = (to) => node.dialProtocol(multiaddr(to), BILATERAL)

// Ends as the peer's stream does: with its bytes, or with "reset".
const answerTo = async (stream) => {
  try {
    return (await read(stream)).toString('latin1')
  } catch {
    return 'reset'
  }
}

const commands = {
  dial: async ({ to }) => String((await node.dial(multiaddr(to))).remotePeer),
  oneConnection: () => until(node, 'connection:close', () => node.getConnections().length === 1),
  subscribe: ({ topic }) => pubsub.subscribe(topic),
  subscribers: async ({ topic, count }) => {
    await until(pubsub, 'subscription-change', () => pubsub.getSubscribers(topic).length >= count)
  },
  publish: async ({ topic, count, small, large }) => {
    let reached = 0
    for (let number = 0; number < count; number++) {
      const { recipients } = await pubsub.publish(topic, content(number, size(number, small, large)))
      reached += recipients.length
    }
    return reached
  },
  messages: ({ count }) => messages.until(count),
  send: async ({ to, count, small, large }) => {
    let next = 0
    let acknowledged = 0
    const work = async () => {
      while (next < count) {
        const number = next++
        const stream = await open(to)
        const answer = answerTo(stream)
        await write(stream, framed(content(number, size(number, small, large))))
        await stream.close()
        if (await answer === ACK.toString('latin1')) acknowledged++
      }
    }
    await Promise.all(Array.from({ length: STREAMS }, work))
    return acknowledged
  },
  sendPart: async ({ to, hex, close }) => { // some bytes, and perhaps the end of our side
    const stream = await open(to)
    const answer = answerTo(stream)
    if (hex) await write(stream, Buffer.from(hex, 'hex'))
    if (close) await stream.close()
    return answer
  },
  envelopes: ({ count }) => envelopes.until(count),
  answer: ({ how }) => { howToAnswer = how },
  ping: async ({ to }) => await node.services.ping.ping(multiaddr(to)) >= 0,
  identified: async ({ count }) => {
    await until(node, 'peer:identify', () => identified.length >= count)
    return identified
  },
  serve: ({ protocol }) => node.handle(protocol, (stream) => stream.close()) // peers are told in a push
}

process.stdout.write(`${node.getMultiaddrs()[0]}\n`)
for await (const line of createInterface({ input: process.stdin })) {
  const { id, name, ...options } = JSON.parse(line)
  Promise.resolve().then(() => commands[name](options)).then(
    (result = null) => process.stdout.write(`${JSON.stringify({ id, result })}\n`),
    (error) => process.stdout.write(`${JSON.stringify({ id, error: String(error) })}\n`)
  )
}
process.exit()
