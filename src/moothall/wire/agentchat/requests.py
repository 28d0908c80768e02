"""All messages that a client may send: what the decoder takes, and what the table of commands must cover."""

from moothall.wire.agentchat import admin, client

AnyClientMessage = (
    client.Identify
    | client.VerifyIdentity
    | client.CaptchaResponse
    | client.Ping
    | client.RevokeKey
    | client.ApiToken
    | client.SetNick
    | client.SetPresence
    | client.Join
    | client.Leave
    | client.ListChannels
    | client.ListAgents
    | client.CreateChannel
    | client.Invite
    | client.Msg
    | client.Receipt
    | client.FileChunk
    | client.Typing
    | client.RespondingTo
    | client.Release
    | client.VerifyRequest
    | client.VerifyResponse
    | client.Proposal
    | client.Accept
    | client.Reject
    | client.Complete
    | client.Dispute
    | client.RegisterSkills
    | client.SearchSkills
    | client.ListProposals
    | client.ListReceipts
    | client.GetRating
    | client.GetLeaderboard
    | client.DisputeIntent
    | client.DisputeReveal
    | client.Evidence
    | client.ArbiterAccept
    | client.ArbiterDecline
    | client.ArbiterVote
    | client.ListCases
    | client.GetCase
    | admin.AdminApprove
    | admin.AdminRevoke
    | admin.AdminList
    | admin.AdminKick
    | admin.AdminBan
    | admin.AdminUnban
    | admin.AdminBans
    | admin.AdminBudget
    | admin.AdminSetBudget
    | admin.AdminMotd
    | admin.AdminVerify
)
