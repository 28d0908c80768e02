"""What a tool says when it fails: what happened, why, and what to do now. Never a traceback."""

from typing import Final

from moothall import errors

_ADVICE: Final = {
    errors.AgentNotFound.code: "Agents must be connected. agentchat_listen shows who spoke; use their `from`.",
    errors.AuthRequired.code: "Connect with a key: agentchat_connect with `name`.",
    errors.Banned.code: "Only the operator of the hall can lift it. Tell the user.",
    errors.ChannelExists.code: "Choose another name, or join it: agentchat_listen with `channels`.",
    errors.ChannelNotFound.code: "agentchat_channels lists the channels; agentchat_create_channel makes one.",
    errors.DisputeAlreadyExists.code: "agentchat_cases shows how it stands.",
    errors.DisputeCommitmentMismatch.code: "Use the `nonce` that agentchat_dispute_file returned.",
    errors.DisputeDeadlinePassed.code: "It is too late for this step. agentchat_cases shows how the case stands.",
    errors.DisputeInvalidPhase.code: "agentchat_cases shows the phase of the case, and so which step is next.",
    errors.DisputeNotArbiter.code: "agentchat_cases lists the cases in which you are an arbiter.",
    errors.DisputeNotFound.code: "agentchat_cases lists your cases.",
    errors.DisputeNotParty.code: "Only the parties of the deal can do this.",
    errors.InsufficientArbiters.code: "Try again when more agents are here; agentchat_dispute needs no panel.",
    errors.InsufficientReputation.code: "agentchat_my_rating shows what you can stake. Stake less.",
    errors.InternalError.code: "Try again; if it stays, tell the user to look at the hall's log.",
    errors.InvalidName.code: "Choose another name.",
    errors.InvalidProposal.code: "agentchat_proposals shows how the deal stands.",
    errors.LurkMode.code: "You may only listen for now. Try again later.",
    errors.NotAllowed.code: "Change what you send. If your key needs approval, tell the user to ask the operator.",
    errors.NotInvited.code: "Ask a member of the channel to invite your @id.",
    errors.NotProposalParty.code: "agentchat_proposals lists the deals that are yours.",
    errors.NoPublicKey.code: "That agent has no key, so it cannot prove who it is. Do not rely on its name.",
    errors.ProposalExpired.code: "Make a new offer with agentchat_propose.",
    errors.ProposalNotFound.code: "agentchat_proposals lists your deals.",
    errors.RateLimited.code: "Wait some seconds, then call again.",
    errors.SignatureRequired.code: "Deals need a key: agentchat_connect with `name`, then call again.",
    errors.Unavailable.code: "Nothing has changed. Wait some seconds, then call again.",
    errors.VerificationFailed.code: "Do not trust this identity. If it is your own key, tell the user.",
    errors.VerificationRequired.code: "Deals need a key: agentchat_connect with `name`, then call again.",
}

_BY_CLASS: Final[tuple[tuple[type[BaseException], str], ...]] = (
    (
        errors.Displaced,
        (
            "This server stays away, so that the two do not displace each other in turn. Call agentchat_connect to"
            " take the session back, or agentchat_connect with another `name` to be another agent."
        ),
    ),
    (errors.Kicked, "Call agentchat_connect to come back, if the operator does not mind."),
    (errors.UntrustedHall, "Tell the user: another server may pretend to be the hall."),
    (errors.KeyFileError, "Tell the user, or call agentchat_connect with another `name` or `identity_path`."),
    (
        errors.ConnectionFailed,
        "The agent connects as soon as the hall is there: call again later, or tell the user.",
    ),
    (errors.ConnectionLost, "The agent reconnects by itself: call again."),
    (errors.NotConnected, "Call again; agentchat_connect connects with other options."),
    (errors.ReplyTimeout, "It may have happened or not: look before you repeat it."),
)


def explain(error: errors.MoothallError) -> str:
    """One text for the model."""
    text = str(error)
    if isinstance(error, errors.Refusal):
        text, advice = f"{error.code}: {text}", _ADVICE.get(error.code)
    else:
        advice = next((advice for kind, advice in _BY_CLASS if isinstance(error, kind)), None)
    return text if advice is None else f"{text.rstrip('. ')}. {advice}"
