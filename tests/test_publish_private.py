"""What `collect publish` does not let out: secrets, addresses, paths of the machine, an unsound folder, the token itself."""

from pathlib import Path

import pytest
from hub import OWNER, Hub
from runs_by_hand import declare, send, write_runs

from catalog.errors import CatalogError
from catalog.open import connect
from collect.publishing.leaks import leaks_of, refuse_leaks, shapes, text_columns
from collect.publishing.local import Local

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own call of its HTTP client

SECRETS = {
    "hf_" + "x" * 34: "Hugging Face token", "sk-proj-" + "a1" * 20: "OpenAI or Anthropic key", "AKIA" + "Q7" * 8: "AWS key", "ghp_" + "a" * 36: "GitHub token",
    "-----BEGIN RSA PRIVATE KEY-----": "private key", "me@example.org": "e-mail address", "/home/jane/runs": "local path", "/Users/j/x": "local path",
    "models in /scratch/jane/m": "local path", "/mnt/disk/x": "local path",
    "file:///data/x": "local path", "C:\\data\\x": "local path", OWNER: "your own Hugging Face token",
    "https://user:pass@example.org/x": "password in an address", '{"a": "see /home/jane"}': "local path",
}  # fmt: skip
FINE = (
    "lighteval: details_2026.parquet",
    "org/name@release.final",
    "https://example.org/home/jane/x",
    "hf://datasets/org/name/data/x.parquet and yes/no/data/x",
    '{"stop": ["Q:\\nA:\\n"]}',
    "task-sk-learn",
)


def test_private_text_is_refused_by_place_and_never_printed(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every shape in the column `source`, one row each; what only looks like one passes."""
    runs = write_runs(tmp_path / "runs", models=[f"org/m{n}@1" for n in range(len([*SECRETS, *FINE]))])
    local = Local(runs)
    for run, text in zip(local.rows["runs"], [*SECRETS, *FINE], strict=True):
        local.con.execute("UPDATE runs SET source = $1 WHERE run_id = $2", [text, run["run_id"]])
    found = list(leaks_of(local.con, "runs", ["source"], shapes()))
    rows = {str(run["run_id"]): kind for run, kind in zip(local.rows["runs"], SECRETS.values(), strict=False)}
    assert {leak.row: leak.kind for leak in found} == rows
    for allowed in ((), ("runs.source",)):
        with pytest.raises(CatalogError) as refused:
            refuse_leaks(local.con, allowed, False)
        assert f"{1 if allowed else len(SECRETS)} texts look private:\n  runs.source, row " in str(refused.value)
        assert not [text for text in SECRETS if text in str(refused.value)]
    write_runs(tmp_path / "one", run={"source": "/home/jane/x"})
    assert send(tmp_path / "one") == 1
    err = capfd.readouterr().err
    assert "--allow-found runs.source" in err and "jane" not in err
    assert not hub.log
    assert send(tmp_path / "one", "--allow-found", "runs.nothing") == 1
    assert "wants TABLE.COLUMN" in capfd.readouterr().err
    assert send(tmp_path / "one", "--allow-found", "runs.source") == 0


def test_private_text_is_found_in_every_column_of_text(tmp_path: Path) -> None:
    """An id that holds it is masked; texts count only where they are published."""
    con = connect(declare(write_runs(tmp_path / "runs", models=("org/a@1", "org/b@1"))))
    leak, known = "see /home/jane/x", shapes()
    for table, columns in text_columns(True).items():
        for column in columns:
            if (table, column) in (("samples", "answer"), ("outcomes", "status")):  # enums
                continue
            kind = con.sql(f"SELECT typeof({column}) FROM {table} LIMIT 1").fetchall()[0][0]
            con.execute("BEGIN")
            con.execute(f"UPDATE {table} SET {column} = $1", [[leak] if kind.endswith("[]") else leak])
            found = set(leaks_of(con, table, columns, known))
            assert {(leak.place, leak.kind) for leak in found} == {(f"{table}.{column}", "local path")}
            assert not [leak for leak in found if "jane" in leak.row]
            con.execute("ROLLBACK")
    con.execute("UPDATE generations SET text = $1", [leak])
    refuse_leaks(con, (), False)
    with pytest.raises(CatalogError, match=r"generations\.text"):
        refuse_leaks(con, (), True)


def test_an_unsound_folder_is_not_sent(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = write_runs(tmp_path / "runs")
    next((runs / "samples").iterdir()).unlink()
    assert send(runs) == 1
    assert "fails integrity" in capfd.readouterr().err
    assert not hub.log


def test_a_token_is_nowhere(hub: Hub, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture,
                            monkeypatch: pytest.MonkeyPatch, waits: list[float]) -> None:  # fmt: skip
    """Not in output, logs or files, of a success, a failure on the way, and a refusal."""
    secret = "hf_thisIsVerySecret0123456789abcdef"
    hub.users[secret] = hub.users[OWNER]
    monkeypatch.setenv("HF_TOKEN", secret)
    runs = write_runs(tmp_path / "runs")
    with caplog.at_level("DEBUG"):
        hub.fault("PUT /lfs/", status=500, times=2)
        hub.fault("/commit/", status=500)
        assert send(runs) == 0
        hub.fault("/commit/", status=403)
        write_runs(runs, models=("org/c@1",))
        assert send(runs) == 1
    assert [r for r in hub.log if secret in r.headers.get("Authorization", "")]
    out, err = capfd.readouterr()
    assert secret not in out + err + caplog.text
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
