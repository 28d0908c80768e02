// Both parties of a deal with the reference's TypeScript client. Prints what its methods return, as one JSON object.
// Arguments: the folder of @zerox1/client, then URL and id of each node. The secret is in the environment.
'use strict'

const [folder, aliceUrl, aliceId, bobUrl, bobId] = process.argv.slice(2)
const { NodeClient } = require(folder)
const secret = process.env.SECRET
const alice = new NodeClient({ url: aliceUrl, secret })
const bob = new NodeClient({ url: bobUrl, secret })

const heard = { alice: [], bob: [], events: [] }
const waiting = []

function listen(name) {
  return (message) => {
    heard[name].push(message)
    for (const look of [...waiting]) look()
  }
}

/** The first message of a kind, when it comes. */
function next(name, wanted) {
  return new Promise((resolve) => {
    const look = () => {
      const found = heard[name].find(wanted)
      if (!found) return false
      const place = waiting.indexOf(look)
      if (place >= 0) waiting.splice(place, 1)
      resolve(found)
      return true
    }
    if (!look()) waiting.push(look)
  })
}

const ofType = (type) => (message) => message.msg_type === type

async function main() {
  const stops = [alice.inbox(listen('alice')), bob.inbox(listen('bob')), bob.events(listen('events'))]
  const found = { identity: await alice.identity(), peers: await alice.peers() }
  // The client does not say when it is connected: repeat until each inbox and the events have heard something.
  const advertise = (client) => client.send({ msgType: 'ADVERTISE', payload: Buffer.from('{}') })
  while (!heard.alice.some(ofType('ADVERTISE')) || !heard.bob.some(ofType('ADVERTISE')) || !heard.events.length) {
    found.sent = await advertise(alice)
    await advertise(bob)
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
  found.proposed = await alice.propose({ recipient: bobId, message: 'Translate this', amountMicro: 0n })
  const conversationId = found.proposed.conversation_id
  found.proposal = await next('bob', ofType('PROPOSE'))
  found.countered = await bob.counter({ recipient: aliceId, conversationId, amountMicro: 7n, round: 1 })
  found.counter = await next('alice', ofType('COUNTER'))
  found.accepted = await alice.accept({ recipient: bobId, conversationId, amountMicro: 7n })
  found.acceptance = await next('bob', ofType('ACCEPT'))
  await bob.send({ msgType: 'DELIVER', recipient: aliceId, conversationId, payload: Buffer.from('work') })
  found.delivery = await next('alice', ofType('DELIVER'))
  const approval = Buffer.concat([Buffer.alloc(1), Buffer.from(aliceId + bobId, 'hex')])
  await alice.send({ msgType: 'VERDICT', recipient: bobId, conversationId, payload: approval })
  await next('bob', ofType('VERDICT'))
  const rating = Buffer.from(JSON.stringify({ score: 80, outcome: 'positive' }))
  await alice.send({ msgType: 'FEEDBACK', recipient: bobId, conversationId, payload: rating })
  found.feedback = await next('bob', ofType('FEEDBACK'))
  found.event = await next('events', (event) => event.type === 'reputation_update')
  found.reputation = await bob.reputation(bobId)
  const payload = { topic: 'radio:x', title: 'Episode 1', tags: ['a'], format: 'text' }
  found.broadcast = await alice.broadcast({ payload })
  found.refused = await alice.reputation('zz').catch((error) => error.message)
  for (const stop of stops) stop()
  console.log(JSON.stringify(found))
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
