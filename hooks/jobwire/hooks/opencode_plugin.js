// jobwire's plugin for opencode: hands over what happens, and carries out what jobwire answers.
// Written for one launch; outside of a job jobwire answers nothing.
import { spawn } from "node:child_process"

const words = JSON.parse(process.env.JOBWIRE_HOOK ?? "[]")
const wanted = new Set([
  "session.created", "session.idle", "session.error", "session.deleted", "permission.asked", "permission.replied",
])
const limit = 1 << 20

function run(more, body, stdio, part, done) {
  return new Promise((resolve) => {
    if (words.length === 0) return resolve(done("", 0))
    const child = spawn(words[0], [...words.slice(1), ...more], { stdio })
    let said = ""
    child.on("error", () => resolve(done("", 0)))
    child.stdin.on("error", () => {})
    child[part].on("data", (some) => { if (said.length < limit) said += some })
    child.on("close", (code) => resolve(done(said, code)))
    child.stdin.end(JSON.stringify(body))
  })
}

const hand = (body) => run([], body, ["pipe", "pipe", "ignore"], "stdout", (said) => {
  try { return JSON.parse(said || "{}") } catch { return {} }
})
// Waits behind a turn: the exit code 2 says that there is something to go on with.
const behind = (body) => run(["--wake"], body, ["pipe", "ignore", "pipe"], "stderr", (said, code) => code === 2 ? said : "")

const isAborted = (error) => error?.name === "MessageAbortedError"
const wordsOf = (message) =>
  (message?.parts ?? []).filter((part) => part.type === "text").map((part) => part.text).join("\n")

export const Jobwire = async ({ client, directory }) => {
  const asked = new Set()
  const parents = new Map()
  const say = (sessionID, text) =>
    client.session.promptAsync({ path: { id: sessionID }, body: { parts: [{ type: "text", text }] } })

  async function told({ event }) {
    if (!wanted.has(event.type)) return
    const properties = event.properties ?? {}
    if (event.type === "session.created") parents.set(properties.info?.id, properties.info?.parentID)
    const sessionID = properties.sessionID ?? properties.info?.id
    const idle = event.type === "session.idle"
    const last = idle ? await lastMessage(sessionID) : undefined
    // A turn that a person ended is told once, at its end: what is said then is the person's.
    const aborted = isAborted(last?.info?.error)
    if (!idle && isAborted(properties.error)) return
    const body = {
      type: aborted ? "session.error" : event.type, properties, directory,
      parentID: parents.get(sessionID), asked_again: idle && asked.delete(sessionID),
    }
    if (idle) body.properties = { ...properties, error: last?.info?.error, text: wordsOf(last) }
    const answer = await hand(body)
    if (answer.reply) {
      await reply(sessionID, answer)
    }
    if (answer.prompt) {
      asked.add(sessionID)
      await say(sessionID, answer.prompt)
    } else if (idle && !aborted) {
      const woken = await behind(body)
      if (woken) await say(sessionID, woken)
    }
  }

  async function reply(sessionID, answer) {
    // With words the agent goes on with them in the same turn (since 1.1); the older way ends its turn.
    const path = { requestID: answer.requestID }
    const body = { reply: answer.reply, message: answer.message || undefined }
    const given = await client._client?.post({
      url: "/permission/{requestID}/reply", path, body, headers: { "Content-Type": "application/json" },
    })
    if (given?.response?.ok) return
    await client.postSessionIdPermissionsPermissionId({
      path: { id: sessionID, permissionID: answer.requestID }, body: { response: answer.reply },
    })
    if (answer.reply === "reject" && answer.message) await say(sessionID, answer.message)
  }

  async function lastMessage(sessionID) {
    const found = await client.session.messages({ path: { id: sessionID } })
    return (found.data ?? []).filter((one) => one.info?.role === "assistant").at(-1)
  }

  return {
    // Not awaited: opencode goes on while a person thinks.
    event: async (input) => { told(input).catch(() => {}) },
    "chat.message": async (input) => {
      await hand({ type: "chat.message", properties: { sessionID: input.sessionID }, directory })
    },
    "tool.execute.before": async (input, output) => {
      const properties = { sessionID: input.sessionID, tool: input.tool, callID: input.callID, args: output.args }
      const answer = await hand({ type: "tool.execute.before", properties, directory })
      if (answer.deny) throw new Error(answer.deny)
    },
    "tool.execute.after": async (input, output) => {
      const properties = { sessionID: input.sessionID, tool: input.tool, callID: input.callID, args: input.args ?? {} }
      const answer = await hand({ type: "tool.execute.after", properties, directory })
      if (answer.context) output.output = `${output.output ?? ""}\n\n${answer.context}`
    },
  }
}
