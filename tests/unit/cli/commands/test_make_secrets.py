import errno
import os
import stat
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from antiphon.cli.commands.admin import make_secrets
from antiphon.cli.main import app
from antiphon.edge.settings import EdgeSettings

ROOT = Path(__file__).parents[4]
NO_KEYS, EVERYONE = ROOT / "deploy" / "api_keys_none", ROOT / "deploy" / "api_keys_everyone"
KEY = "client-key-0123456789"


def test_client_keys_are_copied_at_every_start_and_other_secrets_are_kept(tmp_path: Path) -> None:
    source, copy = tmp_path / "keys", tmp_path / "made" / "api_keys"
    copy.parent.mkdir()
    made = []
    for text in (KEY, f"{KEY}2"):
        source.write_text(text)
        make_secrets(copy.parent, owner=os.getuid(), api_keys=source)
        made.append((copy.read_text(), (copy.parent / "admin_token").read_text()))
        assert stat.S_IMODE(copy.stat().st_mode) == 0o400
        assert EdgeSettings(api_keys_file=copy).client_keys() == [text]
    assert [keys for keys, _ in made] == [f"{KEY}\n", f"{KEY}2\n"]
    assert made[0][1] == made[1][1]


def test_without_client_keys_one_is_made_and_kept(tmp_path: Path) -> None:
    copies = []
    for source in (NO_KEYS, EVERYONE, NO_KEYS):
        make_secrets(tmp_path, owner=os.getuid(), api_keys=source)
        copies.append(EdgeSettings(api_keys_file=tmp_path / "api_keys").client_keys())
    [key] = EdgeSettings(api_keys_file=tmp_path / "api_key").client_keys()
    assert copies == [[key], [], [key]]
    assert len(key) > 40


def test_what_an_interrupted_start_left_does_not_prevent_the_next(tmp_path: Path) -> None:
    """In a container, each start has the same process id."""
    for name in ("admin_token", "api_keys"):
        (tmp_path / f".{name}.{os.getpid()}").touch()
    make_secrets(tmp_path, owner=os.getuid(), api_keys=NO_KEYS)
    assert EdgeSettings(api_keys_file=tmp_path / "api_keys").client_keys()


def test_a_file_that_cannot_be_given_away_is_not_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr("os.fchown", refuse)
    with pytest.raises(typer.Exit):
        make_secrets(tmp_path)
    assert not list(tmp_path.iterdir())


def test_missing_client_keys_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(typer.Exit):
        make_secrets(tmp_path, owner=os.getuid(), api_keys=tmp_path / "missing")


def test_the_compose_stack_takes_client_keys_from_a_file() -> None:
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    secrets, edge = compose["services"]["secrets"], compose["services"]["edge"]
    assert secrets["command"][-2:] == ["--api-keys", f"/run/secrets/{secrets['secrets'][0]}"]
    assert edge["environment"]["ANTIPHON_API_KEYS_FILE"] == "/run/antiphon/api_keys"
    default = compose["secrets"]["api_keys"]["file"].partition(":-")[2].rstrip("}")
    assert ROOT / default == NO_KEYS


@pytest.mark.parametrize("owner", ["-5", str(2**32 - 1), "9" * 30])
def test_a_user_that_no_system_has_is_refused(owner: str, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["make-secrets", str(tmp_path), "--owner", owner])
    assert ended.exit_code == 2
    assert "Invalid value for '--owner'" in ended.stderr
