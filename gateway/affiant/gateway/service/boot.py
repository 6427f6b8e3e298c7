"""One boot, from the store it finds to the service it makes: keys, first records, gaps, and only then a service.

Nothing of an earlier boot is resumed. The TD's configuration is checked before anything is written.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from affiant.attestation.encoding.binary_text import b64u, b64u_sha256
from affiant.attestation.log_reading.bounded_http import HTTPSettings, make_client
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.signatures.profiles.verification import require_usable
from affiant.attestation.statements.evidence import wrap_endorsements
from affiant.attestation.statements.evidence_source import QuoteSource
from affiant.attestation.statements.statement import WITNESS_MAX_S, LogIdentity
from affiant.attestation.tdx.verify.cache import VerificationCache
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL
from affiant.gateway.admission.admit import Admissions, Nonces
from affiant.gateway.admission.appraise_session import Appraiser
from affiant.gateway.admission.child_starts import ChildStarts
from affiant.gateway.admission.closing import Closing
from affiant.gateway.admission.draining import Draining
from affiant.gateway.admission.restrict import Restrictions
from affiant.gateway.admission.submissions import Submissions
from affiant.gateway.approvals.queue import GatewayApprovals
from affiant.gateway.approvals.readers import Readers
from affiant.gateway.bundles.bundles import Bundles
from affiant.gateway.config.collateral_file import COLLATERAL_NAME, CollateralFile
from affiant.gateway.config.config import Settings
from affiant.gateway.config.keyset import Keyset, make_keyset, require_bound
from affiant.gateway.erasure.erasing import Erasing
from affiant.gateway.erasure.pruning import Pruning
from affiant.gateway.log.log_anchors import LogAnchors
from affiant.gateway.log.log_key import KEPT, load_log_signer
from affiant.gateway.log.published_log import PublishedLog
from affiant.gateway.log.transparency_log import TransparencyLog, log_folder
from affiant.gateway.log.witnesses import OWN_WITNESS_SOCKET, Witnesses
from affiant.gateway.requests.authentication import Authenticator
from affiant.gateway.requests.request_run import RefusalBudget
from affiant.gateway.service.recovery import Recovery, gap_members, recover
from affiant.gateway.service.service import Service
from affiant.gateway.service.tool_offers import ToolOffers, make_tool_offers
from affiant.gateway.sessions.recorder import Recorder
from affiant.gateway.sessions.sessions import SessionTable
from affiant.gateway.store.entries import BootEntry, StartedEntry, encode_entry
from affiant.gateway.store.index import Index
from affiant.gateway.store.journal import Journal, Note, Place
from affiant.gateway.store.order_book import OrderBook
from affiant.gateway.upstream.model_routing import Upstreams
from affiant.gateway.upstream.openai_upstream import Credentials, make_upstream
from affiant.gateway.wire.bodies import Bodies
from affiant.gateway.wire.errors import JournalUnavailable
from affiant.socket_address import reachable_address

__all__ = ["Ambient", "booted"]


@dataclass(frozen=True, slots=True)
class Ambient:
    """What a boot takes from its surroundings.

    Args:
        source: the TD that the process runs in.
        tls_spki: digest of the TLS key that clients pin, 43 characters.
        clock: the time that records are dated by, UTC. seconds: a clock that never goes back.
        require_clock: raises while the machine's clock is not the one that records are dated by.
    """

    source: QuoteSource
    tls_spki: str
    clock: Callable[[], datetime]
    random_bytes: Callable[[int], bytes]
    seconds: Callable[[], float] = time.monotonic
    require_clock: Callable[[], None] = lambda: None


@asynccontextmanager
async def booted(settings: Settings, ambient: Ambient) -> AsyncIterator[Service]:
    """A service whose boot and gaps are durable; on leaving, its files and connections are closed.

    The caller holds the store's lock and ends the chain.

    Raises:
        ``gateway.configuration_unbound``: the TD was launched for another configuration; nothing was written.
        ExtraMissing, TrustedRootUnusable: no session could be admitted under its profile signers.
        JournalUnavailable: the first records cannot be made durable.
    """
    folder = log_folder(settings.store, settings.config.origin)
    require_bound(settings.config, ambient.source)
    await asyncio.to_thread(require_usable, settings.config.profile_signers)
    signer = await asyncio.to_thread(load_log_signer, folder, settings.config.origin)
    recovery = await asyncio.to_thread(recover, settings.store)
    boot = ambient.random_bytes(16)
    upstreams = _upstreams(settings, ambient)
    tools = make_tool_offers(settings, seconds=ambient.seconds, random_bytes=ambient.random_bytes)
    index = Index(settings.store, boot=b64u(boot))
    log = published = None
    addresses = ExitStack()
    try:
        log = TransparencyLog(folder, signer, seconds=ambient.seconds, bounds=settings.log)
        published = _published(settings, ambient, log, signer.verifier, addresses)
        cosigned = await published.before_boot()
        keyset = await _keyset(settings, ambient, LogIdentity(signer.verifier, KEPT), cosigned)

        def on_durable(entries: Sequence[tuple[Note, Place]]) -> None:
            index.on_durable(entries)
            log.on_durable(entries)

        journal = Journal(
            settings.store,
            boot=boot,
            number=recovery.number,
            link=recovery.link,
            on_durable=on_durable,
        )
        try:
            recorder = Recorder(_chain(keyset, ambient), journal)
            service = _service(
                settings,
                ambient,
                keyset,
                recorder,
                bundles=Bundles(index, journal, published, LogAnchors(folder, log)),
                upstreams=upstreams,
                tools=tools,
            )
            await _first_records(settings, keyset, journal, service, recovery)
            published.begin()
            await service.erasing.resume()
            service.closing.began(seconds=ambient.seconds())
            yield service
            await _keep_last(published, recorder)
        finally:
            await journal.close()
    finally:
        if published is not None:
            await published.close()
        if log is not None:
            await log.close()
        await index.close()
        await upstreams.close()
        if tools is not None:
            await tools.close()
        addresses.close()


async def _keep_last(published: PublishedLog, recorder: Recorder) -> None:
    """A later export of the store has a cosigned checkpoint over all of this boot, its end included."""
    note = await published.last()
    if note is not None:
        with suppress(JournalUnavailable):
            await recorder.keep_object("checkpoints", note)


async def _keyset(settings: Settings, ambient: Ambient, log: LogIdentity, cosigned: bytes | None) -> Keyset:
    return await asyncio.to_thread(
        make_keyset,
        config=settings.config,
        source=ambient.source,
        boot_log=settings.boot_log,
        tls_spki=ambient.tls_spki,
        log=log,
        cosigned=cosigned,
        now=ambient.clock(),
        random_bytes=ambient.random_bytes,
    )


def _upstreams(settings: Settings, ambient: Ambient) -> Upstreams:
    return Upstreams(
        [
            make_upstream(
                config, settings.credentials.get(config.id, Credentials()), timeouts=settings.timeouts
            )
            for config in settings.config.upstreams
        ],
        seconds=ambient.seconds,
        bounds=settings.queue,
    )


def _published(
    settings: Settings, ambient: Ambient, log: TransparencyLog, key: LogKey, addresses: ExitStack
) -> PublishedLog:
    """The log with the witnesses that the configuration names; ``addresses`` are closed after it."""
    policy = settings.config.witness_policy
    witnesses = None
    if policy is not None:
        sockets = {}
        if settings.config.asks_own_witness:
            own = addresses.enter_context(reachable_address(settings.store / OWN_WITNESS_SOCKET))
            sockets[OWN_WITNESS_URL] = own
        client = make_client(HTTPSettings(), sockets=sockets)
        witnesses = Witnesses(policy, key, client=client, clock=ambient.clock, bounds=settings.witnesses)
    return PublishedLog(log, witnesses, max_age_s=WITNESS_MAX_S, clock=ambient.clock, seconds=ambient.seconds)


def _chain(keyset: Keyset, ambient: Ambient) -> ChainSigner:
    return ChainSigner(
        signer=keyset.receipt,
        statement=keyset.statement,
        chn=keyset.chn,
        evd=keyset.evd,
        random_bytes=ambient.random_bytes,
        clock=ambient.clock,
    )


def _service(
    settings: Settings,
    ambient: Ambient,
    keyset: Keyset,
    recorder: Recorder,
    *,
    bundles: Bundles,
    upstreams: Upstreams,
    tools: ToolOffers | None,
) -> Service:
    sessions = SessionTable(limit=settings.sessions_max)
    approvals = GatewayApprovals(
        recorder=recorder, sessions=sessions, clock=ambient.clock, random_bytes=ambient.random_bytes
    )
    book = OrderBook(settings.config.erasure_authorities, settings.config.origin)
    closing = Closing(
        recorder=recorder,
        sessions=sessions,
        log=bundles.log,
        clock=ambient.clock,
        epoch_s=settings.config.epoch_s,
        silent_s=settings.silent_s,
        grace_s=settings.drain_s,
    )
    admissions = _admissions(settings, ambient, keyset, recorder, closing)
    return Service(
        config=settings.config,
        keyset=keyset,
        recorder=recorder,
        log=bundles.log,
        sessions=sessions,
        authenticator=Authenticator(sessions, keyset.digest, ambient.clock, ambient.random_bytes),
        admissions=admissions,
        restrictions=Restrictions(admissions, approvals, grace_s=settings.drain_s),
        submissions=Submissions(recorder, approvals.observe),
        closing=closing,
        drain=Draining(sessions, closing, ambient.seconds),
        bundles=bundles,
        upstreams=upstreams,
        tools=tools,
        bodies=Bodies(memory=settings.bodies_max, seconds=settings.body_s),
        erasing=Erasing(
            recorder=recorder,
            journal=bundles.journal,
            index=bundles.index,
            log=bundles.log,
            sessions=sessions,
            book=book,
            origin=settings.config.origin,
            store=settings.store,
            pruning=Pruning(bundles.index, book, settings.store),
            clock=ambient.clock,
        ),
        refusals=RefusalBudget(
            per_second=settings.refusals_per_s, burst=settings.refusals_burst, seconds=ambient.seconds
        ),
        approvals=approvals,
        readers=Readers(approvals, spki=ambient.tls_spki, clock=ambient.clock),
        clock=ambient.clock,
        seconds=ambient.seconds,
        require_clock=ambient.require_clock,
    )


def _admissions(
    settings: Settings, ambient: Ambient, keyset: Keyset, recorder: Recorder, closing: Closing
) -> Admissions:
    return Admissions(
        recorder=recorder,
        sessions=closing.sessions,
        nonces=Nonces(random_bytes=ambient.random_bytes),
        appraiser=Appraiser(
            config=settings.config,
            reference=settings.reference,
            keyset_digest=keyset.digest,
            ear=keyset.ear,
            build=settings.build,
            cache=VerificationCache(),
            floor=settings.floor,
        ),
        collateral=CollateralFile(settings.store / COLLATERAL_NAME, settings.collateral),
        clock=ambient.clock,
        random_bytes=ambient.random_bytes,
        session_max_s=settings.config.session_max_s,
        starts=ChildStarts(closing.sessions),
        mark=closing.mark,
    )


async def _first_records(
    settings: Settings,
    keyset: Keyset,
    journal: Journal,
    service: Service,
    recovery: Recovery,
) -> None:
    """Statement, objects, ``boot``, one ``gap`` for each leftover, and the mark that this is complete."""
    recorder = service.recorder
    endorsements = wrap_endorsements(settings.collateral.to_bytes())
    objects = (
        ("keysets", keyset.statement.raw),
        ("evidence", keyset.evidence),
        ("endorsements", endorsements),
        ("policies", settings.config.raw),
        ("policies", settings.reference.raw),
        *(() if keyset.cosigned is None else (("checkpoints", keyset.cosigned),)),
    )
    pending = [journal.append(encode_entry(BootEntry(statement=b64u(keyset.statement.raw))))]
    pending += [recorder.keep_object(name, data) for name, data in objects]
    members = {"ks": keyset.digest, "bld": settings.build, "col": b64u_sha256(endorsements)}
    pending.append(recorder.record("boot", members).durable)
    pending += [recorder.record("gap", gap_members(left)).durable for left in recovery.leftovers]
    pending.append(journal.append(encode_entry(StartedEntry())))
    await asyncio.gather(*pending)
