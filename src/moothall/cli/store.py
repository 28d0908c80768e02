"""`moothall store`: bring the store up to date, check it, write it out."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from time import time
from typing import Annotated

import typer

from moothall.cli._exits import FAILED, group
from moothall.cli._options import Config, choose
from moothall.cli._stores import DataDir, StoreUrl, opened_file, opened_store
from moothall.errors import UsageError
from moothall.identity import PrivateKey, load
from moothall.store import migrations
from moothall.store.files import write
from moothall.store.schema import VERSION

app = group("store", "What a hall keeps: deals, ratings, the ledger, receipts.")


@app.command()
def upgrade(data_dir: DataDir = None, store: StoreUrl = None, config: Config = None) -> None:
    """Bring the tables up to this version. Stop the halls that use them first."""
    with opened_store(data_dir, store, config) as connection:
        connection.execute(connection.dialect.begin)
        migrations.lock(connection)
        if migrations.version_of(connection) == 0:
            raise UsageError("there is no store of a hall there; `moothall serve` makes one")
        found = migrations.upgrade(connection, int(time() * 1000))
        connection.execute("COMMIT")
    if found == VERSION:
        typer.echo(f"the store has version {VERSION} already")
    else:
        typer.echo(f"upgraded the store from version {found} to {VERSION}")


@app.command()
def check(data_dir: DataDir = None, store: StoreUrl = None, config: Config = None) -> None:
    """Compare deals, standings, ledger, audit trail and receipts. The exit code is 1 if they do not fit.

    It may be used while a hall is running.
    """
    from moothall.store.checks import problems

    found = 0
    with opened_store(data_dir, store, config) as connection:
        migrations.require_current(connection)
        for problem in problems(connection):
            typer.echo(problem)
            found += 1
    if found:
        raise typer.Exit(FAILED)
    typer.echo("no problems found")


@app.command()
def export(
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="File to write; else standard output."),
    ] = None,
) -> None:
    """Write everything out, one JSON object per line."""
    from moothall.store.export import exported
    from moothall.store.files import replace

    with opened_store(data_dir, store, config) as connection:
        migrations.require_current(connection)
        if output is None:
            sys.stdout.buffer.writelines(exported(connection))
            return
        try:
            replace(output, exported(connection))
        except OSError as error:
            raise UsageError(f"{output}: {error.strerror}") from None


@app.command()
def move(data_dir: DataDir = None, store: StoreUrl = None, config: Config = None) -> None:
    """Copy the file of a stopped hall into an empty PostgreSQL.

    Its key, deals and ratings come along, and all else that it keeps. The file stays as it is. From then on, start
    the hall with the same --store, and not without.

    \b
    MOOTHALL_STORE=postgresql://hall:PASSWORD@db.example.org/hall moothall store move --data-dir data
    """
    from moothall.store.files import DataDirectory
    from moothall.store.moving import move as copy_rows

    settings = choose(config, None, data_dir=data_dir, store=store).settings
    if not settings.store:
        raise UsageError("where to? add --store postgresql://HOST/DATABASE, or set MOOTHALL_STORE")
    with ExitStack() as opened:
        source = opened.enter_context(opened_file(settings.data_dir))
        directory = DataDirectory(settings.data_dir)
        try:
            directory.claim()
        except UsageError:
            raise UsageError(f"a hall or node uses {settings.data_dir}: stop it first") from None
        opened.callback(directory.release)
        migrations.require_current(source)
        target = opened.enter_context(opened_store(data_dir, store, config))
        copied = copy_rows(source, target, directory, int(time() * 1000))
    typer.echo(
        f"copied {copied:,} rows; start the hall with this store from now on, and keep the file as a backup"
    )


@app.command()
def key(
    data_dir: DataDir = None,
    store: StoreUrl = None,
    config: Config = None,
    new: Annotated[
        bool, typer.Option("--new", help="Make a new key. Agents have to unpin the old one.")
    ] = False,
    take: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Take the key of this file, such as an old hall-key.json."),
    ] = None,
    secret_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Encrypt the key with the secret in this file from now on."),
    ] = None,
) -> None:
    """Show the public key of the hall, or replace the key. Stop the halls first if you replace it.

    \b
    moothall store key
    moothall store key --secret-file new-secret.txt   # then set store_secret_file to it
    """
    from moothall.identity.lockbox import is_locked, opened, public_of
    from moothall.identity.seals import key_id
    from moothall.settings.sources import read_store_secret
    from moothall.store.hall_key import PUBLIC_FILE, replace_key, stored_key

    if new and take is not None:
        raise UsageError("choose one: --new or --take")
    settings = choose(config, None, data_dir=data_dir, store=store).settings
    secret = settings.store_secret if secret_file is None else read_store_secret(secret_file)
    with opened_store(data_dir, store, config) as connection:
        migrations.require_current(connection)
        connection.execute(connection.dialect.begin)
        record = stored_key(connection)
        if new:
            replacement = PrivateKey(os.urandom(32))
        elif take is not None:
            replacement = load(take).key
        elif record is None:
            raise UsageError("the store has no key yet; `moothall serve` makes one, or use --new or --take")
        elif secret_file is not None:
            replacement = opened(record, settings.store_secret)
        else:
            replacement = None
        if replacement is not None:
            replace_key(connection, replacement, secret, os.urandom)
            record = stored_key(connection)
        connection.execute("COMMIT")
    assert record is not None  # noqa: S101
    public = public_of(record)
    if replacement is not None and settings.data_dir.is_dir():
        write(settings.data_dir / PUBLIC_FILE, public.pem.encode())
    typer.echo(f"key     {public.raw.hex()}")
    typer.echo(f"key id  {key_id(public)}")
    typer.echo(f"kept    {'encrypted' if is_locked(record) else 'plain'}")
