"""The shipped catalog: real forgetting and real gain in the tiny family, and what must never be in a published file."""

import re

import pytest

from catalog import connect
from catalog.open import SHIPPED


@pytest.fixture(scope="module")
def shipped():
    """The shipped catalog."""
    return connect()


def test_size(shipped):
    """Nine models, 300 items or more in 4 categories or more, k of 2 to 5 and free-form."""
    assert shipped.sql("SELECT count(*) FROM models").fetchall()[0][0] >= 9
    items, categories = shipped.sql("SELECT count(DISTINCT sample_key), count(DISTINCT category) FROM samples JOIN itemsets USING (itemset_id) "
                                    "JOIN task_categories USING (task_id) WHERE map = 'own' AND category <> 'Other'").fetchall()[0]  # fmt: skip
    assert items >= 300 and categories >= 4
    options = {k for (k,) in shipped.sql("SELECT DISTINCT n_options FROM samples").fetchall()}
    assert {2, 3, 4, 5, None} <= options
    assert shipped.sql("SELECT setting, count(DISTINCT replicate) FROM run_facts WHERE model_id LIKE 'local/large-base@%' GROUP BY ALL ORDER BY ALL").fetchall() == [
        ("cot", 3), ("option-text-norm", 1), ("option-text-sum", 1)]  # fmt: skip


@pytest.mark.parametrize("setting", ["option-text-sum", "option-text-norm"])
def test_real_forgetting_and_real_gain(shipped, setting):
    """Domain training of the large model: one category's f_exch and another's bt_exch are above .05 for certain."""
    rows = shipped.sql("SELECT category, f_exch_lo, bt_exch_lo FROM category_metrics WHERE pair_id = 'large-base -> large-domain' AND map = 'own' AND setting = $1",
                       params=[setting]).fetchall()  # fmt: skip
    lost = {category for category, low, _ in rows if low is not None and low > 0.05}
    gained = {category for category, _, low in rows if low is not None and low > 0.05}
    assert "People" in lost and "Medicine" in gained and "Medicine" not in lost


def test_checked_forgetting_and_gain(shipped):
    """The same of generated answers, less both models' noise against themselves."""
    rows = {c: (f, bt) for c, f, bt in shipped.sql("SELECT category, f_exch_x_lo, bt_exch_x_lo FROM category_metrics "
            "WHERE pair_id = 'large-base -> large-domain' AND map = 'own' AND setting = 'cot'").fetchall()}  # fmt: skip
    assert rows["People"][0] > 0.05 and rows["Medicine"][1] > 0.05


def test_identities(shipped):
    """On real data, where all answers are read: f_latent - bt_latent = f_exch - bt_exch = C (a_pre - a_post); BT_sym - F_sym = net."""
    rows = shipped.sql("""SELECT t.f_latent - t.bt_latent, t.f_exch - t.bt_exch, t.a_pre - t.a_post, s.k FROM task_replicates AS t
        JOIN (SELECT before_run, after_run, min(n_options) AS k FROM transition_counts WHERE kind = 'pair' GROUP BY ALL HAVING count(*) = 1 AND k >= 3) AS s
        USING (before_run, after_run) WHERE setting LIKE 'option%'""").fetchall()  # fmt: skip
    assert len(rows) > 20
    for latent, exch, net, k in rows:
        assert latent == pytest.approx(exch, abs=1e-9) and latent == pytest.approx(k / (k - 1) * net, abs=1e-9)


def test_self_comparison_of_nothing_changed(shipped):
    """A model's F against itself is no forgetting: noise_floor holds it, and it is not 0 for sampled answers."""
    floor = shipped.sql("SELECT avg(f_self) FROM noise_floor WHERE setting = 'cot'").fetchall()[0][0]
    assert 0.01 < floor < 0.3


def test_no_text_no_path_no_address():
    """No question, no path of a machine, no e-mail address in what is shipped."""
    for path in SHIPPED.rglob("*.parquet"):
        content = path.read_bytes()
        assert not re.search(rb"/(?:home|root|tmp|mnt|Users)/|[a-z0-9]@[a-z0-9-]+\.[a-z]{2,}", content), path
        assert b"Which province" not in content
    assert not (SHIPPED / "generations").exists()
