-- The forgetting catalog: which items a language model gets right before and after post-training.
--
-- Reads top to bottom in the order of a reader's questions: what is stored (tables), the formulas (scalar macros),
-- who is compared with whom (run_pairs), what happened to each item (transitions, counts), the metrics by task,
-- category and pair, what replicates add, many tasks, scale, sequences of checkpoints, published figures, and what would
-- make the catalog wrong (integrity).
-- Formulas, assumptions and sources in words: docs/metrics.md. Plain DuckDB: `duckdb -c ".read schema.sql"` works.
-- All shares are fractions 0..1. A table macro `x_of(before, after)` computes for two models what the view `x` shows
-- for the declared pairs; with no argument the macro is the view.

-- ==== 1. tables =======================================================================================================
-- One grain each; the same names are the folders of a catalog on disk. Types and NOT NULL only: rules live in `integrity`.

CREATE TYPE answer_kind AS ENUM ('choice', 'free', 'multi');
CREATE TYPE outcome_status AS ENUM ('ok', 'lenient', 'unparsed', 'truncated', 'error');

CREATE TABLE models (                       -- grain: model_id
    model_id      VARCHAR NOT NULL,         -- org/name@revision, or local/<name>@<12 hex of the weights' sha256>
    family        VARCHAR,
    n_params      BIGINT,
    kind          VARCHAR,                  -- base, instruct, domain, reasoning, merged ...
    parents       VARCHAR[],
    lineage       VARCHAR,
    step          BIGINT,
    stage_task    VARCHAR,
    recipe        VARCHAR,
    quantisation  VARCHAR
);
COMMENT ON TABLE models IS 'One row per model checkpoint; model_id is org/name@revision or local/name@12 hex of its weights.';

CREATE TABLE tasks (                        -- grain: task_id
    task_id       VARCHAR NOT NULL,
    benchmark     VARCHAR NOT NULL,
    subset        VARCHAR NOT NULL,
    behavioural   BOOLEAN NOT NULL
);
COMMENT ON TABLE tasks IS 'One row per task, named benchmark/subset without split or sample suffix.';

CREATE TABLE categories (                   -- grain: (map, task_id)
    map           VARCHAR NOT NULL,
    task_id       VARCHAR NOT NULL,
    category      VARCHAR NOT NULL
);
COMMENT ON TABLE categories IS 'Which category a task belongs to, by map; a map is one way to sort tasks.';

CREATE TABLE itemsets (                     -- grain: itemset_id
    itemset_id       VARCHAR NOT NULL,      -- hash of its task_id and its sample_keys in order
    task_id          VARCHAR NOT NULL,
    source           VARCHAR,
    source_revision  VARCHAR,
    split            VARCHAR,
    permutation_seed BIGINT,
    n_items          INTEGER NOT NULL
);
COMMENT ON TABLE itemsets IS 'One row per list of items actually asked: one task, in one order, from one source.';

CREATE TABLE samples (                      -- grain: (itemset_id, item)
    itemset_id    VARCHAR NOT NULL,
    item          INTEGER NOT NULL,
    sample_key    VARCHAR NOT NULL,         -- scheme:hash#occurrence: what pairs
    answer        answer_kind NOT NULL,
    n_options     SMALLINT,
    gold          VARCHAR[],
    source_id     VARCHAR
);
COMMENT ON TABLE samples IS 'One row per item of an itemset: its identity, number of options and gold; never its text.';

CREATE TABLE protocols (                    -- grain: protocol_id
    protocol_id    VARCHAR NOT NULL,        -- hash of its content, setting left out
    setting        VARCHAR NOT NULL,
    prompt_style   VARCHAR,
    shots          SMALLINT,
    template       VARCHAR,
    decoding       VARCHAR,
    temperature    DOUBLE,
    top_p          DOUBLE,
    max_new_tokens INTEGER,
    stop           VARCHAR[],
    scoring        VARCHAR,
    option_order   VARCHAR,
    extraction     VARCHAR,
    dtype          VARCHAR,
    details        VARCHAR
);
COMMENT ON TABLE protocols IS 'One row per way of asking and grading; setting is the name under which runs are compared.';

CREATE TABLE runs (                         -- grain: run_id
    run_id               BIGINT NOT NULL,   -- first 53 bits of sha256(model_id, itemset_id, protocol_id, replicate)
    model_id             VARCHAR NOT NULL,
    itemset_id           VARCHAR NOT NULL,
    protocol_id          VARCHAR NOT NULL,
    replicate            INTEGER NOT NULL,
    rng_seed             BIGINT,
    engine               VARCHAR,
    versions             VARCHAR,
    hardware             VARCHAR,
    chat_template_sha256 VARCHAR,
    contributor          VARCHAR,
    collected_at         TIMESTAMP,
    source               VARCHAR,
    wall_s               DOUBLE
);
COMMENT ON TABLE runs IS 'One row per run: one model on one itemset under one protocol and replicate.';

CREATE TABLE outcomes (                     -- grain: (run_id, item)
    run_id        BIGINT NOT NULL,
    item          INTEGER NOT NULL,
    correct       BOOLEAN,                  -- NULL = not measured, never FALSE
    predicted     SMALLINT,
    status        outcome_status NOT NULL,
    reason        VARCHAR,
    n_tokens      INTEGER
);
COMMENT ON TABLE outcomes IS 'One row per run and item: right, wrong or not measured, and how the answer was read.';

CREATE TABLE option_scores (                -- grain: (run_id, item)
    run_id        BIGINT NOT NULL,
    item          INTEGER NOT NULL,
    scores        DOUBLE[] NOT NULL
);
COMMENT ON TABLE option_scores IS 'Log-probability of every option, in nats or nats per byte as the protocol scores, in published order.';

CREATE TABLE generations (                  -- grain: (run_id, item)
    run_id        BIGINT NOT NULL,
    item          INTEGER NOT NULL,
    text          VARCHAR NOT NULL
);
COMMENT ON TABLE generations IS 'Generated text per run and item; kept locally, published only on request.';

CREATE TABLE pairs (                        -- grain: pair_id
    pair_id       VARCHAR NOT NULL,
    before_id     VARCHAR NOT NULL,
    after_id      VARCHAR NOT NULL,
    regime        VARCHAR,
    data_examples BIGINT,
    data_tokens   BIGINT,
    source        VARCHAR
);
COMMENT ON TABLE pairs IS 'Declared before/after pairs of models; comparing two models needs no declaration.';

CREATE TABLE published_results (            -- grain: (paper, table_no, regime, before_model, after_model, category, metric)
    paper         VARCHAR NOT NULL,
    table_no      VARCHAR,
    regime        VARCHAR,
    family        VARCHAR,                  -- ours, not printed: who is not independent of whom
    before_model  VARCHAR,
    after_model   VARCHAR,
    size_b        DOUBLE,
    category      VARCHAR,
    metric        VARCHAR NOT NULL,
    value         DOUBLE,
    std           DOUBLE,
    ceiling       DOUBLE,
    unit          VARCHAR,
    confidence    VARCHAR
);
COMMENT ON TABLE published_results IS 'Figures as printed in papers, for comparison; names and values as printed.';

CREATE TABLE opened_from (                  -- grain: one row per catalog opened; filled when it is opened, no file holds it
    catalog       VARCHAR NOT NULL,
    revision      VARCHAR                   -- NULL for a folder that was not downloaded
);
COMMENT ON TABLE opened_from IS 'Catalogs this connection holds; of a data set on the Hub the commit, by which it can be opened again.';

-- ==== 2. formulas =====================================================================================================
-- One formula each. k is the number of options of an item; NULL k is free-form, the limit of many options.

CREATE MACRO ratio(a, b) AS CAST(a AS DOUBLE) / nullif(CAST(b AS DOUBLE), 0e0);
COMMENT ON MACRO ratio IS 'a / b as a double; NULL where b is 0.';
CREATE MACRO at_least_0(x) AS CASE WHEN x < 0 THEN 0e0 ELSE x END;
COMMENT ON MACRO at_least_0 IS 'x clipped at 0; NULL stays NULL (greatest() would make it 0).';
CREATE MACRO z95() AS 1.959963984540054e0;
COMMENT ON MACRO z95 IS 'The 97.5% quantile of the standard normal: half width of a 95% interval in standard errors.';
CREATE MACRO chance_factor(k) AS coalesce(k / (k - 1e0), 1e0);
COMMENT ON MACRO chance_factor IS 'C = k/(k-1): knowledge lost per forgotten answer when guesses are right 1 in k; 1 for free-form.';
CREATE MACRO guess_odds(k) AS coalesce(1e0 / (k - 1e0), 0e0);
COMMENT ON MACRO guess_odds IS '1/(k-1): odds that a uniform guess is right; 0 for free-form.';
CREATE MACRO lucky_paper(a_pre, a_post, k) AS (1 - a_pre) * (1 - a_post) * guess_odds(k);
COMMENT ON MACRO lucky_paper IS 'Flips by luck as arXiv 2510.17776 counts them: product of the error rates over k-1; assumes the errors independent.';

CREATE MACRO latent_score(k, lost, both_wrong) AS
    chance_factor(k) * (CAST(lost AS DOUBLE) - CAST(both_wrong AS DOUBLE) * guess_odds(k));
COMMENT ON MACRO latent_score IS 'Knowledge lost if guesses are uniform and independent over time: C (lost - both_wrong/(k-1)).';
CREATE MACRO exchange_answer(k, lost_to_wrong, differ) AS
    CASE WHEN k >= 3 THEN chance_factor(k) * (CAST(lost_to_wrong AS DOUBLE) - CAST(differ AS DOUBLE) / (k - 2e0)) END;
COMMENT ON MACRO exchange_answer IS 'Part of f_exch lost to a parsed wrong option: C (right to wrong - d/(k-2)); NULL below 3 options.';
CREATE MACRO exchange_format(k, lost_to_unparsed, wrong_to_unparsed) AS
    CASE WHEN k >= 3 THEN CAST(lost_to_unparsed AS DOUBLE) - CAST(wrong_to_unparsed AS DOUBLE) * guess_odds(k) END;
COMMENT ON MACRO exchange_format IS 'Part of f_exch lost to an answer that cannot be read: right to unparsed - wrong to unparsed/(k-1).';

CREATE MACRO wilson_lo(x, n) AS
    CASE WHEN n > 0 THEN greatest(0e0, (x + z95()^2 / 2 - z95() * sqrt(greatest(CAST(x AS DOUBLE) * (n - x) / n, 0) + z95()^2 / 4)) / (n + z95()^2)) END;
COMMENT ON MACRO wilson_lo IS 'Lower end of Wilson''s 95% interval of x/n (Wilson 1927).';
CREATE MACRO wilson_hi(x, n) AS
    CASE WHEN n > 0 THEN least(1e0, (x + z95()^2 / 2 + z95() * sqrt(greatest(CAST(x AS DOUBLE) * (n - x) / n, 0) + z95()^2 / 4)) / (n + z95()^2)) END;
COMMENT ON MACRO wilson_hi IS 'Upper end of Wilson''s 95% interval of x/n (Wilson 1927).';

CREATE MACRO binomial_half(i, m) AS exp(lgamma(m + 1) - lgamma(i + 1) - lgamma(m - i + 1) - m * ln(2e0));
COMMENT ON MACRO binomial_half IS 'Probability of i successes in m throws of a fair coin.';
CREATE MACRO tail_from(n10, n01) AS CAST(greatest(0, least(n10, n01) - 10 - 5 * sqrt(n10 + n01)) AS BIGINT);
COMMENT ON MACRO tail_from IS 'Where the lower tail of a fair coin begins to count: what lies further below is less than 1e-16 of it.';
CREATE MACRO mcnemar_exact(n10, n01) AS
    CASE WHEN n10 + n01 IS NOT NULL  -- least() passes over NULL
         THEN least(1e0, 2 * list_sum(list_transform(range(tail_from(n10, n01), least(n10, n01) + 1), lambda i: binomial_half(i, n10 + n01)))) END;
COMMENT ON MACRO mcnemar_exact IS 'Exact two-sided McNemar p of NET change; 1 where nothing flipped. A large p does not mean nothing was forgotten.';
CREATE MACRO mcnemar_midp(n10, n01) AS
    CASE WHEN n10 + n01 = 0 THEN 1e0
         WHEN n10 = n01 THEN 1 - binomial_half(n10, n10 + n01) / 2
         ELSE mcnemar_exact(n10, n01) - binomial_half(n10, n10 + n01) END;
COMMENT ON MACRO mcnemar_midp IS 'Mid-p variant of McNemar''s test (Fagerland, Lydersen, Laake 2013): less conservative than the exact p.';
-- Newcombe 1998, method 10: square-and-add of two Wilson intervals with a phi whose positive numerator is cut by n/2.
CREATE MACRO newcombe_phi(n11, n10, n01, n00) AS
    coalesce(CASE WHEN CAST(n11 AS DOUBLE) * n00 - CAST(n10 AS DOUBLE) * n01 > 0
                  THEN greatest(CAST(n11 AS DOUBLE) * n00 - CAST(n10 AS DOUBLE) * n01 - (n11 + n10 + n01 + n00) / 2e0, 0)
                  ELSE CAST(n11 AS DOUBLE) * n00 - CAST(n10 AS DOUBLE) * n01 END
             / nullif(sqrt(CAST(n11 + n10 AS DOUBLE) * (n01 + n00) * (n11 + n01) * (n10 + n00)), 0), 0e0);
COMMENT ON MACRO newcombe_phi IS 'Correlation of the two answers in Newcombe''s method 10, with his n/2 correction; 0 where undefined.';
CREATE MACRO square_and_add(near_before, near_after, phi) AS
    sqrt(greatest(near_before^2 - 2 * phi * near_before * near_after + near_after^2, 0));
COMMENT ON MACRO square_and_add IS 'Distance from a paired difference to an end of Newcombe''s interval, from the distances of its two Wilson intervals.';
CREATE MACRO net_lo(n11, n10, n01, n00) AS
    ratio(n01 - n10, n11 + n10 + n01 + n00) - square_and_add(
        wilson_hi(n11 + n10, n11 + n10 + n01 + n00) - ratio(n11 + n10, n11 + n10 + n01 + n00),
        ratio(n11 + n01, n11 + n10 + n01 + n00) - wilson_lo(n11 + n01, n11 + n10 + n01 + n00), newcombe_phi(n11, n10, n01, n00));
COMMENT ON MACRO net_lo IS 'Lower end of Newcombe''s 95% interval of a_post - a_pre (method 10 with the n/2 correction of phi).';
CREATE MACRO net_hi(n11, n10, n01, n00) AS
    ratio(n01 - n10, n11 + n10 + n01 + n00) + square_and_add(
        ratio(n11 + n10, n11 + n10 + n01 + n00) - wilson_lo(n11 + n10, n11 + n10 + n01 + n00),
        wilson_hi(n11 + n01, n11 + n10 + n01 + n00) - ratio(n11 + n01, n11 + n10 + n01 + n00), newcombe_phi(n11, n10, n01, n00));
COMMENT ON MACRO net_hi IS 'Upper end of Newcombe''s 95% interval of a_post - a_pre (method 10 with the n/2 correction of phi).';

-- Wald and bootstrap intervals of a mean of item scores under-cover (.39 to .91 at n = 50..200, simulated): two
-- pseudo-items, one lost and one gained by luck, are added. No pseudo-items (up = down = NULL): the plain Wald form.
CREATE MACRO padded_mean(n, total, up, down) AS
    (total + coalesce(up, 0) - coalesce(down, 0)) / nullif(n + if(up IS NULL, 0e0, 2e0), 0);
COMMENT ON MACRO padded_mean IS 'Centre of an interval: mean of n item scores and the pseudo-items +up and -down (none where NULL).';
CREATE MACRO spread(mean_square, mean) AS
    if(mean_square - mean^2 < 1e-14 * mean_square, 0e0, mean_square - mean^2);
COMMENT ON MACRO spread IS 'Population variance from the mean of squares and the mean; what is below rounding is 0.';
CREATE MACRO padded_se(n, total, squares, up, down) AS
    sqrt(spread((squares + coalesce(up, 0)^2 + coalesce(down, 0)^2) / nullif(n + if(up IS NULL, 0e0, 2e0), 0), padded_mean(n, total, up, down))
         / nullif(n + if(up IS NULL, 0e0, 2e0), 0));
COMMENT ON MACRO padded_se IS 'Standard error of padded_mean: population sd over the root of the number of scores.';
CREATE MACRO item_se(n, total, squares) AS sqrt(spread(ratio(squares, n), ratio(total, n)) / nullif(n, 0));
COMMENT ON MACRO item_se IS 'Standard error of a mean of n item scores, from their sum and their sum of squares.';

-- ==== 3. who is compared with whom ====================================================================================

-- Grain:  run_id.    Nulls: task facts of an unknown task are NULL (integrity refuses them).
CREATE VIEW run_facts AS
SELECT r.run_id, r.model_id, i.task_id, p.setting, r.replicate, r.itemset_id, r.protocol_id, i.n_items,
       min(r.run_id) OVER (PARTITION BY r.model_id, r.itemset_id, r.protocol_id) AS series_id,
       coalesce(t.behavioural, FALSE) AS behavioural, coalesce(m.kind = 'base', FALSE) AS base
FROM runs AS r
JOIN itemsets AS i USING (itemset_id)
JOIN protocols AS p USING (protocol_id)
LEFT JOIN tasks AS t ON t.task_id = i.task_id
LEFT JOIN models AS m ON m.model_id = r.model_id;
COMMENT ON VIEW run_facts IS 'Every run with its task, setting and what decides whether it may be paired.';

-- Grain:  (before_itemset, after_itemset), same task, at least one common item.
CREATE MACRO itemset_overlap_of_rows() AS TABLE
SELECT b.itemset_id AS before_itemset, a.itemset_id AS after_itemset, count(*) AS n_common
FROM (SELECT s.itemset_id, s.sample_key, i.task_id FROM samples AS s JOIN itemsets AS i USING (itemset_id)) AS b
JOIN (SELECT s.itemset_id, s.sample_key, i.task_id FROM samples AS s JOIN itemsets AS i USING (itemset_id)) AS a
    ON a.sample_key = b.sample_key AND a.task_id = b.task_id
GROUP BY ALL;
COMMENT ON MACRO TABLE itemset_overlap_of_rows IS 'itemset_overlap, computed from the items.';
CREATE VIEW itemset_overlap AS FROM itemset_overlap_of_rows();
COMMENT ON VIEW itemset_overlap IS 'How many items two itemsets of one task share, by sample_key.';

-- Grain:  (setting, task_id, scheme), scheme of sample_key: qog, doc, prompt or src.    Check: test_import.py
-- n_same_id: items before whose source id is there after under another key: shuffled options, another template or revision.
CREATE MACRO item_matches(before_model, after_model) AS TABLE
WITH asked AS (
    SELECT f.model_id, f.setting, f.task_id, s.sample_key, split_part(s.sample_key, ':', 1) AS scheme, min(s.source_id) AS source_id,
           min(s.gold) AS gold
    FROM (SELECT DISTINCT model_id, setting, task_id, itemset_id FROM run_facts WHERE model_id IN (before_model, after_model)) AS f
    JOIN samples AS s USING (itemset_id) GROUP BY ALL),
b AS (FROM asked WHERE model_id = before_model),
a AS (FROM asked WHERE model_id = after_model),
a_ids AS (SELECT DISTINCT setting, task_id, source_id FROM a WHERE source_id IS NOT NULL)
SELECT setting, task_id, scheme, count(b.model_id) AS n_before, count(a.model_id) AS n_after,
       count(*) FILTER (b.model_id IS NOT NULL AND a.model_id IS NOT NULL) AS n_common,
       count(*) FILTER (b.gold <> a.gold) AS n_other_gold,
       count(*) FILTER (a.model_id IS NULL AND i.source_id IS NOT NULL) AS n_same_id
FROM b FULL JOIN a USING (setting, task_id, scheme, sample_key)
LEFT JOIN a_ids AS i ON i.setting = b.setting AND i.task_id = b.task_id AND i.source_id = b.source_id
GROUP BY ALL;
COMMENT ON MACRO TABLE item_matches IS 'How many items two models share, per setting, task and scheme of key, and what else they have in common.';

-- Grain:  (chain, before_id, after_id). chain: neighbouring steps of a lineage, not a declared pair.
CREATE MACRO asked_pairs(before_model, after_model) AS TABLE
SELECT FALSE AS chain, pair_id, before_id, after_id FROM pairs WHERE before_model IS NULL
UNION ALL
SELECT FALSE, coalesce((SELECT min(pair_id) FROM pairs WHERE before_id = before_model AND after_id = after_model),
                       before_model || ' -> ' || after_model), before_model, after_model
WHERE before_model IS NOT NULL
UNION ALL
SELECT TRUE, NULL, model_id, next_id
FROM (SELECT model_id, lead(model_id) OVER (PARTITION BY lineage ORDER BY step, model_id) AS next_id
      FROM models WHERE lineage IS NOT NULL AND step IS NOT NULL)
WHERE next_id IS NOT NULL AND before_model IS NULL;
COMMENT ON MACRO TABLE asked_pairs IS 'The model pairs a query is about: two given ones, or all declared pairs and the neighbouring steps of every lineage.';

-- The one series of runs (itemset and protocol) that stands for each side of a pair, task and setting: the two with
-- the most items in common, then the same protocol, then the most replicates, then by id. Nothing in common: no row.
CREATE MACRO matched_series(before_model, after_model) AS TABLE
WITH series AS (
    SELECT series_id, model_id, task_id, setting, itemset_id, protocol_id, n_items, behavioural, base, count(*) AS n_replicates
    FROM run_facts GROUP BY ALL)
SELECT q.chain, q.pair_id, q.before_id, q.after_id, b.setting, b.task_id, o.n_common, b.series_id AS before_series, a.series_id AS after_series,
       b.itemset_id AS before_itemset, b.protocol_id AS before_protocol, b.n_items AS n_before,
       a.itemset_id AS after_itemset, a.protocol_id AS after_protocol, a.n_items AS n_after
FROM asked_pairs(before_model, after_model) AS q
JOIN series AS b ON b.model_id = q.before_id
JOIN series AS a ON a.model_id = q.after_id AND a.task_id = b.task_id AND a.setting = b.setting
JOIN itemset_overlap AS o ON o.before_itemset = b.itemset_id AND o.after_itemset = a.itemset_id
WHERE NOT (b.behavioural AND (b.base OR a.base))
QUALIFY row_number() OVER (
    PARTITION BY q.chain, q.before_id, q.after_id, b.setting, b.task_id
    ORDER BY o.n_common DESC, b.protocol_id = a.protocol_id DESC, least(b.n_replicates, a.n_replicates) DESC,
             b.itemset_id, a.itemset_id, b.protocol_id, a.protocol_id) = 1;
COMMENT ON MACRO TABLE matched_series IS 'Which itemset and protocol stand for each side of a pair in a task and setting: the largest overlap wins.';

-- Grain:  (kind, before_run, after_run). The ONE place that decides who is compared with whom.
-- kind:   pair (same replicate), cross (another replicate of the other model), self (two replicates of one model,
--         both orders), consecutive (neighbouring checkpoints of a lineage, same replicate).
CREATE MACRO run_pairs_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT CASE WHEN m.chain THEN 'consecutive' WHEN b.replicate = a.replicate THEN 'pair' ELSE 'cross' END AS kind,
       m.pair_id, m.before_id, m.after_id, m.setting, m.task_id, b.run_id AS before_run, a.run_id AS after_run,
       b.replicate, a.replicate AS after_replicate, m.before_itemset, m.before_protocol, m.after_itemset,
       m.after_protocol, m.n_common, m.n_before, m.n_after
FROM matched_series(before_model, after_model) AS m
JOIN runs AS b ON b.model_id = m.before_id AND b.itemset_id = m.before_itemset AND b.protocol_id = m.before_protocol
JOIN runs AS a ON a.model_id = m.after_id AND a.itemset_id = m.after_itemset AND a.protocol_id = m.after_protocol
WHERE NOT m.chain OR b.replicate = a.replicate
UNION ALL
SELECT 'self', NULL, b.model_id, b.model_id, b.setting, b.task_id, b.run_id, a.run_id, b.replicate, a.replicate,
       b.itemset_id, b.protocol_id, b.itemset_id, b.protocol_id, b.n_items, b.n_items, b.n_items
FROM run_facts AS b
JOIN run_facts AS a USING (model_id, itemset_id, protocol_id)
WHERE b.replicate <> a.replicate AND (before_model IS NULL OR b.model_id IN (before_model, after_model));
COMMENT ON MACRO TABLE run_pairs_of IS 'run_pairs for two given models, declared as a pair or not.';

CREATE VIEW run_pairs AS FROM run_pairs_of();
COMMENT ON VIEW run_pairs IS 'Which run is compared with which, and why (kind): the one place that decides it.';

-- Grain:  (setting, field).    n_tasks: tasks in which the two sides of the pair were asked or graded differently by that field.
-- Source: a base model asked few-shot and its chat child through its template may be compared, but a reader must know.
CREATE MACRO protocol_differences(before_model, after_model) AS TABLE
WITH compared AS (
    SELECT DISTINCT setting, task_id, before_protocol, after_protocol FROM run_pairs_of(before_model, after_model)
    WHERE kind = 'pair' AND before_protocol <> after_protocol),
told AS (
    SELECT protocol_id, unnest(['prompt_style', 'shots', 'template', 'decoding', 'temperature', 'top_p', 'max_new_tokens', 'stop',
                                'scoring', 'option_order', 'extraction', 'dtype', 'details']) AS field,
           unnest([prompt_style, shots::VARCHAR, template, decoding, temperature::VARCHAR, top_p::VARCHAR, max_new_tokens::VARCHAR,
                   stop::VARCHAR, scoring, option_order, extraction, dtype, details]) AS value
    FROM protocols)
SELECT setting, b.field, min(b.value) AS before_value, min(a.value) AS after_value, count(DISTINCT task_id) AS n_tasks
FROM compared AS c
JOIN told AS b ON b.protocol_id = c.before_protocol
JOIN told AS a ON a.protocol_id = c.after_protocol AND a.field = b.field
WHERE a.value IS DISTINCT FROM b.value
GROUP BY setting, b.field;
COMMENT ON MACRO TABLE protocol_differences IS 'In what the two sides of a comparison were asked or graded differently, per setting: shots, template, decoding ...';

-- ==== 4. what happened to each item ===================================================================================

-- Grain:  (run_id, item). Nulls: correct is NULL where nothing was measured.
CREATE VIEW run_outcomes AS
SELECT o.run_id, o.item, s.sample_key, s.answer, s.n_options, o.correct, o.predicted, o.status, o.n_tokens,
       o.status IN ('ok', 'lenient') AS parsed
FROM outcomes AS o
JOIN runs AS r USING (run_id)
JOIN samples AS s ON s.itemset_id = r.itemset_id AND s.item = o.item;
COMMENT ON VIEW run_outcomes IS 'Every outcome with the identity, answer kind and number of options of its item.';

-- Grain:  (kind, before_run, after_run, sample_key), paired by sample_key alone.
-- Nulls:  a side that did not measure the item is NULL, and so is the transition.
CREATE MACRO transition_rows(before_model, after_model, kinds) AS TABLE
WITH compared AS MATERIALIZED (
    SELECT *, row_number() OVER () AS pair_no
    FROM run_pairs_of(before_model, after_model) WHERE list_contains(kinds, kind)),
told AS MATERIALIZED (  -- first, or DuckDB joins all outcomes of the catalog to their items
    SELECT run_id, item, correct, predicted, status, status IN ('ok', 'lenient') AS parsed FROM outcomes
    WHERE run_id IN (SELECT before_run FROM compared UNION ALL SELECT after_run FROM compared)),
b AS (
    SELECT c.pair_no, s.sample_key, s.answer, s.n_options, o.*
    FROM compared AS c JOIN told AS o ON o.run_id = c.before_run JOIN samples AS s ON s.itemset_id = c.before_itemset AND s.item = o.item),
a AS (
    SELECT c.pair_no, s.sample_key, s.answer, s.n_options, o.*
    FROM compared AS c JOIN told AS o ON o.run_id = c.after_run JOIN samples AS s ON s.itemset_id = c.after_itemset AND s.item = o.item)
SELECT c.* EXCLUDE (pair_no, n_common, n_before, n_after), sample_key, coalesce(b.answer, a.answer) AS answer,
       coalesce(b.n_options, a.n_options) AS n_options,
       b.correct AS before_correct, a.correct AS after_correct, b.predicted AS before_predicted,
       a.predicted AS after_predicted, b.status AS before_status, a.status AS after_status,
       b.parsed AS before_parsed, a.parsed AS after_parsed,
       CASE WHEN b.correct AND a.correct THEN '1->1' WHEN b.correct AND NOT a.correct THEN '1->0'
            WHEN NOT b.correct AND a.correct THEN '0->1' WHEN NOT b.correct AND NOT a.correct THEN '0->0' END AS transition
FROM b FULL JOIN a USING (pair_no, sample_key) JOIN compared AS c USING (pair_no);
COMMENT ON MACRO TABLE transition_rows IS 'Item by item, both answers of every compared run pair of the given kinds.';

CREATE MACRO transitions(before_model, after_model) AS TABLE
SELECT * EXCLUDE (kind, after_replicate, before_itemset, before_protocol, after_itemset, after_protocol, before_parsed, after_parsed)
FROM transition_rows(before_model, after_model, ['pair']);
COMMENT ON MACRO TABLE transitions IS 'FROM transitions(''A'', ''B''): what happened to every item between two models, per setting and replicate.';

CREATE VIEW transitions AS FROM transitions(NULL, NULL);
COMMENT ON VIEW transitions IS 'What happened to every item of every declared pair: 1->0 forgotten, 0->1 gained; NULL not measured on one side.';

-- ---- answers as bits -------------------------------------------------------------------------------------------------
-- Counting does not join items: 60 items of one stratum (task, answer kind, number of options) are the bits of one word,
-- in the order of their sample_keys, and two runs are compared word by word. Packed catalogs hold the words (section 13).
-- A place is one number, so that joins and groups over millions of answers compare one number: place // 60 is the word,
-- place % 60 the bit. Numbers lie close together, so that DuckDB looks them up in arrays.

-- Grain:  stratum; a number that depends on what else the catalog holds.    first_word: of its words.
CREATE MACRO strata_of_rows() AS TABLE
SELECT CAST(row_number() OVER numbered - 1 AS INTEGER) AS stratum, task_id, answer, n_options,
       CAST(sum((n + 59) // 60) OVER numbered - (n + 59) // 60 AS INTEGER) AS first_word
FROM (SELECT i.task_id, s.answer, s.n_options, count(DISTINCT s.sample_key) AS n
      FROM samples AS s JOIN itemsets AS i USING (itemset_id) GROUP BY ALL)
WINDOW numbered AS (ORDER BY task_id, answer, n_options);
COMMENT ON MACRO TABLE strata_of_rows IS 'strata, computed from the items.';
CREATE VIEW strata AS FROM strata_of_rows();
COMMENT ON VIEW strata IS 'Items of one task, answer kind and number of options, which are counted together.';

-- Grain:  (itemset_id, item).    item_no: first_no of the itemset + item; one number, so that DuckDB can look it up in an array.
CREATE VIEW item_places AS
WITH placed AS (
    SELECT t.stratum, k.sample_key, t.first_word * 60 + row_number() OVER (PARTITION BY t.stratum ORDER BY k.sample_key) - 1 AS place
    FROM (SELECT DISTINCT i.task_id, s.answer, s.n_options, s.sample_key FROM samples AS s JOIN itemsets AS i USING (itemset_id)) AS k
    JOIN strata AS t ON t.task_id = k.task_id AND t.answer = k.answer AND t.n_options IS NOT DISTINCT FROM k.n_options),
numbered AS (SELECT itemset_id, sum(max(item) + 1) OVER (ORDER BY itemset_id) - max(item) - 1 AS first_no FROM samples GROUP BY itemset_id)
SELECT s.itemset_id, s.item, CAST(f.first_no AS BIGINT) AS first_no, CAST(f.first_no + s.item AS BIGINT) AS item_no, t.stratum, CAST(p.place AS INTEGER) AS place
FROM samples AS s JOIN itemsets AS i USING (itemset_id) JOIN numbered AS f USING (itemset_id)
JOIN strata AS t ON t.task_id = i.task_id AND t.answer = s.answer AND t.n_options IS NOT DISTINCT FROM s.n_options
JOIN placed AS p ON p.stratum = t.stratum AND p.sample_key = s.sample_key;
COMMENT ON VIEW item_places IS 'Where an item stands among those of its task: the same place in every itemset of the task.';

CREATE MACRO answer_code(correct, status, predicted) AS
    CASE WHEN correct THEN 0 WHEN NOT correct AND status NOT IN ('ok', 'lenient') THEN 1 WHEN NOT correct THEN coalesce(CAST(predicted AS INTEGER) + 3, 2) END;
COMMENT ON MACRO answer_code IS 'What one answer was: 0 right, 1 not read, 2 wrong with an unknown option, 3 + the wrong option; NULL not measured.';

-- Grain:  (run_id, item). Apart, because a catalog whose outcomes stay on the Hub has no rowids.
CREATE MACRO outcomes_between(first_row, last_row) AS TABLE FROM outcomes WHERE rowid BETWEEN first_row AND last_row;
COMMENT ON MACRO TABLE outcomes_between IS 'Outcomes in the order in which they were loaded, from one rowid to another.';

-- Grain:  run_id.    first_no, last_item: where the item_nos of its itemset begin, and its largest item.
CREATE MACRO runs_numbered(models := NULL) AS TABLE
SELECT run_id, model_id, series_id, replicate, first_no, last_item, CAST(row_number() OVER (ORDER BY model_id, series_id, replicate) AS INTEGER) AS run_no,
       CAST(dense_rank() OVER (ORDER BY model_id, series_id) AS INTEGER) AS series_no
FROM run_facts JOIN (SELECT itemset_id, first_no, max(item) AS last_item FROM item_places GROUP BY ALL) USING (itemset_id)
WHERE models IS NULL OR list_contains(models, model_id);
COMMENT ON MACRO TABLE runs_numbered IS 'Runs and series (of the models given), counted from 1.';

-- Grain:  (run_no, place), measured outcomes; numbers as in runs_numbered.    first_row, last_row: rowids between which the
--         outcomes of those models lie, where that is known.
CREATE MACRO run_answers_of(models := NULL, first_row := 0, last_row := 9223372036854775807) AS TABLE
SELECT r.run_no, r.series_no, r.replicate, p.place, answer_code(o.correct, o.status, o.predicted) AS code
FROM outcomes_between(first_row, last_row) AS o JOIN runs_numbered(models) AS r USING (run_id)
JOIN item_places AS p ON p.item_no = CASE WHEN o.item BETWEEN 0 AND r.last_item THEN r.first_no + o.item END  -- else another itemset's
WHERE o.correct IS NOT NULL;
COMMENT ON MACRO TABLE run_answers_of IS 'Every measured answer (of the models given) as a code, at the place of its item.';

-- Grain:  (run_id, word).    first_row, last_row: as run_answers_of.    option_0 ... option_14: the binary digits of the wrong option.
CREATE MACRO run_words_of_rows(models := NULL, first_row := 0, last_row := 9223372036854775807) AS TABLE
WITH words AS (
SELECT run_no, place // 60 AS word, bit_or(bit) AS measured, bit_or(if(code = 0, bit, 0)) AS correct,
       bit_or(if(code <> 1, bit, 0)) AS parsed, bit_or(if(code >= 3, bit, 0)) AS told,
       bit_or(if(option & 1 <> 0, bit, 0)) AS option_0, bit_or(if(option & 2 <> 0, bit, 0)) AS option_1,
       bit_or(if(option & 4 <> 0, bit, 0)) AS option_2, bit_or(if(option & 8 <> 0, bit, 0)) AS option_3,
       bit_or(if(option & 16 <> 0, bit, 0)) AS option_4, bit_or(if(option & 32 <> 0, bit, 0)) AS option_5,
       bit_or(if(option & 64 <> 0, bit, 0)) AS option_6, bit_or(if(option & 128 <> 0, bit, 0)) AS option_7,
       bit_or(if(option & 256 <> 0, bit, 0)) AS option_8, bit_or(if(option & 512 <> 0, bit, 0)) AS option_9,
       bit_or(if(option & 1024 <> 0, bit, 0)) AS option_10, bit_or(if(option & 2048 <> 0, bit, 0)) AS option_11,
       bit_or(if(option & 4096 <> 0, bit, 0)) AS option_12, bit_or(if(option & 8192 <> 0, bit, 0)) AS option_13,
       bit_or(if(option & 16384 <> 0, bit, 0)) AS option_14
FROM (SELECT *, CAST(1 AS BIGINT) << place % 60 AS bit, CASE WHEN code >= 3 THEN code - 3 ELSE 0 END AS option
      FROM run_answers_of(models, first_row, last_row))
GROUP BY run_no, word)
SELECT run_id, stratum, w.* EXCLUDE (run_no)
FROM words AS w JOIN runs_numbered(models) USING (run_no) JOIN (SELECT DISTINCT place // 60 AS word, stratum FROM item_places) USING (word);
COMMENT ON MACRO TABLE run_words_of_rows IS 'The answers of every run (of the models given), 60 items a row, one bit each, computed from the outcomes.';
CREATE MACRO run_words_of(before_model := NULL, after_model := NULL) AS TABLE
FROM run_words_of_rows(CASE WHEN before_model IS NOT NULL THEN [before_model, after_model] END);
COMMENT ON MACRO TABLE run_words_of IS 'The answers of every run (of two models, if given), 60 items a row, one bit each.';

-- Grain:  (kind, before_run, after_run, answer, n_options): one stratum of one run pair.
-- Nulls:  items not measured on both sides count only in n_unpaired_*; a stratum measured on no side has no row.
-- Check:  test_metrics.py; test_packed.py, against `transitions`
CREATE MACRO transition_counts_of_words(before_model := NULL, after_model := NULL, kinds := ['pair', 'cross', 'self', 'consecutive']) AS TABLE
WITH compared AS MATERIALIZED (
    SELECT *, row_number() OVER () AS pair_no
    FROM run_pairs_of(before_model, after_model) WHERE list_contains(kinds, kind)),
words AS MATERIALIZED (
    FROM run_words_of(before_model, after_model)
    WHERE run_id IN (SELECT before_run FROM compared UNION ALL SELECT after_run FROM compared)),
b AS (SELECT pair_no, stratum, word, COLUMNS('^(measured|correct|parsed|told|option_\d+)$') AS 'b_\0' FROM compared JOIN words ON run_id = before_run),
a AS (SELECT pair_no, stratum, word, COLUMNS('^(measured|correct|parsed|told|option_\d+)$') AS 'a_\0' FROM compared JOIN words ON run_id = after_run),
met AS (SELECT pair_no, stratum, coalesce(COLUMNS('^[ba]_'), 0) AS '\0' FROM b FULL JOIN a USING (pair_no, stratum, word)),
happened AS (
    SELECT *, b_correct & a_correct AS kept, b_correct & a_measured & ~a_correct AS lost, a_correct & b_measured & ~b_correct AS won,
           b_measured & a_measured & ~(b_correct | a_correct) AS wrong, wrong & b_parsed & a_parsed AS read, b_told & a_told AS told,
           xor(b_option_0, a_option_0) | xor(b_option_1, a_option_1) | xor(b_option_2, a_option_2) | xor(b_option_3, a_option_3)
           | xor(b_option_4, a_option_4) | xor(b_option_5, a_option_5) | xor(b_option_6, a_option_6) | xor(b_option_7, a_option_7)
           | xor(b_option_8, a_option_8) | xor(b_option_9, a_option_9) | xor(b_option_10, a_option_10) | xor(b_option_11, a_option_11)
           | xor(b_option_12, a_option_12) | xor(b_option_13, a_option_13) | xor(b_option_14, a_option_14) AS differ
    FROM met),
counted AS (
    SELECT pair_no, stratum,
           sum(bit_count(b_measured & a_measured))         AS n,
           sum(bit_count(kept))                            AS n11,
           sum(bit_count(lost))                            AS n10,
           sum(bit_count(won))                             AS n01,
           sum(bit_count(wrong))                           AS n00,
           sum(bit_count(read & told & differ))            AS d,
           sum(bit_count(read & ~told))                    AS n_blind,
           sum(bit_count(lost & ~a_parsed))                AS n10_unparsed,
           sum(bit_count(won & ~b_parsed))                 AS n01_unparsed,
           sum(bit_count(wrong & b_parsed & ~a_parsed))    AS n00_to_unparsed,
           sum(bit_count(wrong & ~b_parsed & a_parsed))    AS n00_from_unparsed,
           sum(bit_count(b_measured & ~a_measured))        AS n_unpaired_before,
           sum(bit_count(a_measured & ~b_measured))        AS n_unpaired_after
    FROM happened GROUP BY pair_no, stratum HAVING bool_or((b_measured | a_measured) <> 0))
SELECT kind, pair_id, before_id, after_id, setting, c.task_id, replicate, after_replicate, before_run, after_run, answer,
       n_options, CAST(coalesce(COLUMNS(n.* EXCLUDE (pair_no, stratum)), 0) AS BIGINT)
FROM counted AS n JOIN compared AS c USING (pair_no) JOIN strata USING (stratum);
COMMENT ON MACRO TABLE transition_counts_of_words IS 'transition_counts_of, counted word by word.';
CREATE MACRO transition_counts_of(before_model := NULL, after_model := NULL, kinds := ['pair', 'cross', 'self', 'consecutive']) AS TABLE
FROM transition_counts_of_words(before_model, after_model, kinds);
COMMENT ON MACRO TABLE transition_counts_of IS 'transition_counts for two given models and the given kinds of run pair.';

CREATE VIEW transition_counts AS FROM transition_counts_of();
COMMENT ON VIEW transition_counts IS 'The four transition counts of every compared run pair, by number of options, with format and unpaired counts.';

-- ---- items answered alike ----------------------------------------------------------------------------------------------
-- Errors over items and comparisons of a model with itself need all replicates of an item together. Items that both models
-- answered alike in every replicate have the same scores: they are one row, and scores are computed once per pattern.
-- The score of an item is its share in the metric of the same name, averaged over its replicates: a metric is the mean of the scores.

CREATE MACRO differing(b, a) AS b >= 3 AND a >= 3 AND b <> a;
COMMENT ON MACRO differing IS 'Of two codes: wrong both times, with different options.';
CREATE MACRO exchange_score(k, b, a) AS
    exchange_answer(k, b = 0 AND a >= 2, differing(b, a)) + exchange_format(k, b = 0 AND a = 1, b >= 2 AND a = 1);
COMMENT ON MACRO exchange_score IS 'Share of one item in f_exch, from the codes of its two answers; swapped, in bt_exch.';

-- Lists of the answers to every item are costly. Fingerprints of them are not, and of all items with one fingerprint the list
-- of one is enough: two of 10^5 different lists share a fingerprint of 64 bits with a probability of 3 in 10^10.

-- Grain:  (series_no, place), items measured at least once; numbers and rows as in run_answers_of. No outcome may be there twice.
-- pattern: a fingerprint of all answers of the model to the item, in any order; packed, a smaller number.
CREATE MACRO fingerprints_of_rows(models := NULL, first_row := 0, last_row := 9223372036854775807) AS TABLE
SELECT series_no, place, bit_xor(hash(CAST(replicate AS BIGINT) * 65536 + code + 1)) AS pattern  -- + 1: 0 hashes to 0, as if not measured
FROM run_answers_of(models, first_row, last_row) GROUP BY series_no, place;
COMMENT ON MACRO TABLE fingerprints_of_rows IS 'All measured answers of a model to an item over its replicates as one number, computed from the outcomes.';

-- Grain:  pattern.    codes: replicate * 65536 + code of each answer.
CREATE MACRO pattern_codes_of_rows(models := NULL, first_row := 0, last_row := 9223372036854775807) AS TABLE
SELECT pattern, list_sort(list(CAST(replicate AS BIGINT) * 65536 + code)) AS codes
FROM run_answers_of(models, first_row, last_row)
JOIN (SELECT pattern, min((series_no, place)) AS one FROM fingerprints_of_rows(models, first_row, last_row) GROUP BY pattern)
    ON series_no = one[1] AND place = one[2]
GROUP BY pattern;
COMMENT ON MACRO TABLE pattern_codes_of_rows IS 'The answers that patterns stand for, computed from the outcomes.';
CREATE MACRO pattern_codes_of(before_model := NULL, after_model := NULL) AS TABLE
FROM pattern_codes_of_rows(CASE WHEN before_model IS NOT NULL THEN [before_model, after_model] END);
COMMENT ON MACRO TABLE pattern_codes_of IS 'The answers that patterns stand for (of two models, if given).';

-- Grain:  (series_id, place).
CREATE MACRO item_patterns_of_rows(models := NULL) AS TABLE
SELECT series_id, stratum, place, pattern
FROM fingerprints_of_rows(models) JOIN (SELECT DISTINCT series_no, series_id FROM runs_numbered(models)) USING (series_no)
JOIN (SELECT DISTINCT place, stratum FROM item_places) USING (place);
COMMENT ON MACRO TABLE item_patterns_of_rows IS 'What a model answered to every item, as a pattern, computed from the outcomes.';
CREATE MACRO item_patterns_of(before_model := NULL, after_model := NULL) AS TABLE
FROM item_patterns_of_rows(CASE WHEN before_model IS NOT NULL THEN [before_model, after_model] END);
COMMENT ON MACRO TABLE item_patterns_of IS 'What a model answered to every item over its replicates, as a pattern (of two models, if given).';

-- Grain:  (before_id, after_id, setting, task_id, answer, n_options, before_pattern, after_pattern).
CREATE MACRO items_alike_of(before_model := NULL, after_model := NULL) AS TABLE
WITH compared AS MATERIALIZED (SELECT *, row_number() OVER () AS pair_no FROM matched_series(before_model, after_model) WHERE NOT chain),
seen AS MATERIALIZED (FROM item_patterns_of(before_model, after_model)),
alike AS (
    SELECT pair_no, b.stratum, b.pattern AS before_pattern, a.pattern AS after_pattern, count(*) AS n_items
    FROM compared JOIN seen AS b ON b.series_id = before_series JOIN seen AS a ON a.series_id = after_series AND a.place = b.place GROUP BY ALL)
SELECT c.before_id, c.after_id, c.setting, c.task_id, s.answer, s.n_options, a.before_pattern, a.after_pattern, a.n_items
FROM alike AS a JOIN compared AS c USING (pair_no) JOIN strata AS s USING (stratum);
COMMENT ON MACRO TABLE items_alike_of IS 'How many items of a pair are answered alike by both models.';

-- Grain:  (before_id, after_id, setting, task_id, answer, n_options, before_pattern, after_pattern): items that are answered alike.
-- Scores: f ... over equal replicates, *_across over every replicate of one model with every one of the other, *_self over
--         distinct replicates of one model (mean of both models). f_exch_x = f_exch_across - f_exch_self, f_sym likewise.
-- Nulls:  exchangeable scores below 3 options; a score without replicates to take it from.
CREATE MACRO item_scores_of(before_model := NULL, after_model := NULL) AS TABLE
WITH alike AS MATERIALIZED (SELECT *, coalesce(n_options, 0) AS k FROM items_alike_of(before_model, after_model)),
pattern AS MATERIALIZED (FROM pattern_codes_of(before_model, after_model)),
asked AS (
    SELECT k, before_pattern, after_pattern FROM alike UNION SELECT k, before_pattern, before_pattern FROM alike
    UNION SELECT k, after_pattern, after_pattern FROM alike),
opened AS (
    SELECT k, before_pattern, after_pattern, unnest(b.codes) AS b, a.codes FROM asked
    JOIN pattern AS b ON b.pattern = before_pattern JOIN pattern AS a ON a.pattern = after_pattern),
met AS (SELECT * EXCLUDE (b, a), b >> 16 = a >> 16 AS same, b & 65535 AS b, a & 65535 AS a FROM (SELECT *, unnest(codes) AS a FROM opened)),
scored AS (
    SELECT k, before_pattern, after_pattern, same, k >= 3 AND ((b = 2 AND a >= 2) OR (b >= 2 AND a = 2)) AS blind,
           CAST(b <> 0 AS DOUBLE) AS wrong_before, CAST(a <> 0 AS DOUBLE) AS wrong_after,
           CAST(b = 0 AND a <> 0 AS DOUBLE) AS f, CAST(b <> 0 AND a = 0 AS DOUBLE) AS bt,
           latent_score(nullif(k, 0), f, b <> 0 AND a <> 0) AS f_latent, latent_score(nullif(k, 0), bt, b <> 0 AND a <> 0) AS bt_latent,
           exchange_score(k, b, a) AS f_exch, exchange_score(k, a, b) AS bt_exch
    FROM met),
score AS MATERIALIZED (
    SELECT k, before_pattern, after_pattern, bool_or(blind) FILTER (same) AS blind, bool_or(blind) AS blind_across, bool_or(blind) FILTER (NOT same) AS blind_self,
           avg(COLUMNS('^(wrong_before|wrong_after|f|bt|(f|bt)_(latent|exch))$')) FILTER (same) AS '\0',
           avg(COLUMNS('^(f|bt)(_exch)?$')) AS '\0_across', avg(COLUMNS('^(f|f_exch)$')) FILTER (NOT same) AS '\0_self'
    FROM scored GROUP BY k, before_pattern, after_pattern)
SELECT g.* EXCLUDE (k),
       COLUMNS(s.* EXCLUDE (k, before_pattern, after_pattern, blind_across, blind_self, f_self, f_exch_self, f_across, bt_across, f_exch_across, bt_exch_across)),
       (b.f_self + a.f_self) / 2 AS f_self, s.f_across - (b.f_self + a.f_self) / 2 AS f_sym, s.bt_across - (b.f_self + a.f_self) / 2 AS bt_sym,
       s.f_exch_across - (b.f_exch_self + a.f_exch_self) / 2 AS f_exch_x, s.bt_exch_across - (b.f_exch_self + a.f_exch_self) / 2 AS bt_exch_x,
       s.blind_across OR b.blind_self OR a.blind_self AS blind_x
FROM alike AS g
JOIN score AS s USING (k, before_pattern, after_pattern)
JOIN score AS b ON b.k = g.k AND b.before_pattern = g.before_pattern AND b.after_pattern = g.before_pattern
JOIN score AS a ON a.k = g.k AND a.before_pattern = g.after_pattern AND a.after_pattern = g.after_pattern;
COMMENT ON MACRO TABLE item_scores_of IS 'Scores of the items of a pair, one row for all items that are answered alike.';

-- Grain:  (before_id, after_id, setting, task_id, answer, n_options): all that the errors of section 5 need of the items.
CREATE MACRO item_sums_of_patterns(before_model := NULL, after_model := NULL) AS TABLE
WITH score AS (
    SELECT *, f * wrong_before AS f_before, f * wrong_after AS f_after, bt * wrong_before AS bt_before, bt * wrong_after AS bt_after,
           wrong_before * wrong_after AS wrong_both, bt - f AS net, f_sym + bt_sym AS v
    FROM item_scores_of(before_model, after_model))
SELECT before_id, after_id, setting, task_id, answer, n_options,
       coalesce(sum(n_items) FILTER (f IS NOT NULL), 0) AS n, bool_or(blind) AS blind,
       coalesce(sum(n_items) FILTER (f_sym IS NOT NULL), 0) AS n_replicated, bool_or(blind_x) FILTER (f_sym IS NOT NULL) AS blind_x,
       sum(n_items * COLUMNS('^(wrong_before|wrong_after|net|v|f_self|(f|bt)(_(latent|exch|sym|exch_x))?)$')) AS '\0_sum',
       sum(n_items * COLUMNS('^(wrong_before|wrong_after|net|v|(f|bt)(_(latent|exch|sym|exch_x))?)$')^2) AS '\0_squares',
       sum(n_items * COLUMNS('^((f|bt)_(before|after)|wrong_both)$')) AS '\0'
FROM score GROUP BY before_id, after_id, setting, task_id, answer, n_options;
COMMENT ON MACRO TABLE item_sums_of_patterns IS 'Sums and sums of squares of the item scores of a pair, computed from the patterns of its answers.';
CREATE MACRO item_sums_of(before_model := NULL, after_model := NULL) AS TABLE FROM item_sums_of_patterns(before_model, after_model);
COMMENT ON MACRO TABLE item_sums_of IS 'Sums and sums of squares of the item scores of a pair, by answer kind and number of options.';

-- ==== 5. metrics of one task ==========================================================================================

CREATE MACRO known_method(answer, k, blind) AS
    CASE WHEN answer = 'free' THEN 'free-form' WHEN k >= 3 AND NOT coalesce(blind, FALSE) THEN 'exchangeable' ELSE 'latent' END;
COMMENT ON MACRO known_method IS 'How f_known treats an item: exchangeable from 3 options with known predictions, else latent; free-form has no luck.';
CREATE MACRO one_of(methods) AS CASE WHEN len(methods) <= 1 THEN methods[1] ELSE 'mixed' END;
COMMENT ON MACRO one_of IS 'The only element of a list of distinct methods, or mixed.';

-- Grain:  (before_run, after_run) = (pair, setting, task, replicate).
-- Nulls:  a zero denominator; chance-adjusted metrics of a task with multi-gold items; f_exch where no item has 3
--         options or a prediction is unknown (f_known then falls back on latent).
-- Source: F, BT, lucky, F_true, F_max: arXiv 2510.17776, section 2; latent, exch, known: docs/metrics.md, section 3.
-- Check:  test_metrics.py, by hand and against tests/reference.py
CREATE MACRO task_replicates_of(before_model := NULL, after_model := NULL) AS TABLE
WITH stratum AS (
    SELECT *, coalesce(sum(n_blind) FILTER (n_options >= 3) OVER (PARTITION BY before_run, after_run), 0) AS blind,
           known_method(answer, n_options, blind > 0) AS method,
           exchange_answer(n_options, n10 - n10_unparsed, d)            AS lost_answer,
           exchange_answer(n_options, n01 - n01_unparsed, d)            AS won_answer,
           exchange_format(n_options, n10_unparsed, n00_to_unparsed)    AS lost_format,
           exchange_format(n_options, n01_unparsed, n00_from_unparsed)  AS won_format
    FROM transition_counts_of(before_model, after_model, ['pair'])),
pooled AS (
    SELECT pair_id, before_id, after_id, setting, task_id, replicate, before_run, after_run,
           CAST(sum(COLUMNS('^n(\d|_|$)')) AS BIGINT) AS '\0', CAST(sum(d) AS BIGINT) AS d, max(blind) AS blind,
           coalesce(bool_or(answer = 'multi') FILTER (n > 0), FALSE) AS multi,
           bool_and(answer = 'choice') FILTER (n > 0) AS all_choice,
           one_of(list(DISTINCT method) FILTER (n > 0)) AS method,
           coalesce(sum(n) FILTER (n_options >= 3), 0) AS n_exch,
           sum(n * lucky_paper(ratio(n11 + n10, n), ratio(n11 + n01, n), n_options)) AS lucky,
           sum((n01 + n00) * guess_odds(n_options)) AS odds_before, sum((n10 + n00) * guess_odds(n_options)) AS odds_after,
           sum(latent_score(n_options, n10, n00)) AS lost_latent, sum(latent_score(n_options, n01, n00)) AS won_latent,
           sum(chance_factor(n_options) * n10) AS lost_sticky, sum(chance_factor(n_options) * n01) AS won_sticky,
           sum(COLUMNS('^(lost|won)_(answer|format)$')) AS '\0',
           sum(if(method = 'exchangeable', lost_answer + lost_format, latent_score(n_options, n10, n00))) AS lost_known,
           sum(if(method = 'exchangeable', won_answer + won_format, latent_score(n_options, n01, n00)))   AS won_known,
           sum(if(method = 'exchangeable', lost_answer + lost_format, chance_factor(n_options) * n10))    AS lost_known_max,
           sum(if(method = 'exchangeable', won_answer + won_format, chance_factor(n_options) * n01))      AS won_known_max
    FROM stratum GROUP BY ALL),
task AS (  -- multi-gold is a property of the task, not of a replicate
    SELECT * REPLACE (bool_or(multi) OVER (PARTITION BY before_id, after_id, setting, task_id) AS multi) FROM pooled),
shown AS (  -- adjusted metrics are divided by n_adjusted (NULL with multi-gold items), exchangeable ones by n_exchangeable
    SELECT *, CASE WHEN NOT multi THEN n END AS n_adjusted, CASE WHEN NOT multi AND blind = 0 THEN n_exch END AS n_exchangeable FROM task)
SELECT pair_id, before_id, after_id, setting, task_id, replicate, before_run, after_run,
       n, n11, n10, n01, n00, d, n_exch, n10_unparsed, n01_unparsed, n_unpaired_before, n_unpaired_after,
       if(multi, NULL, method) AS method, n < 30 OR n10 + n01 + d < 5 AS sparse,
       ratio(n11 + n10, n) AS a_pre, ratio(n11 + n01, n) AS a_post, ratio(n01 - n10, n) AS net,
       ratio(n10, n) AS f, ratio(n01, n) AS bt, ratio(n10 + n01, n) AS flips,
       if(all_choice AND blind = 0, ratio(n10 + n01 + d, n), NULL) AS all_flips,
       ratio(n10, n11 + n10) AS f_cond, 1 - ratio(n10, n11 + n10) AS btc, ratio(n00, n00 + n10) AS bec,
       ratio(ratio(n10, n), ratio(n11 + n10, n) * ratio(n10 + n00, n)) AS f_relative,
       at_least_0(ratio(n10 - n01, n)) AS f_conventional,
       ratio(n10_unparsed, n) AS f_unparsed, ratio(n10 - n10_unparsed, n) AS f_wrong,
       ratio(lucky, n_adjusted) AS f_lucky,
       at_least_0(ratio(n10 - lucky, n_adjusted)) AS f_true, at_least_0(ratio(n01 - lucky, n_adjusted)) AS bt_true,
       ratio(n10 - lucky, n_adjusted) AS f_true_unclipped, ratio(n01 - lucky, n_adjusted) AS bt_true_unclipped,
       at_least_0(ratio(n11 + n10 - odds_before, n_adjusted)) AS f_max,
       at_least_0(ratio(n11 + n01 - odds_after, n_adjusted)) AS bt_max,
       ratio(lost_latent, n_adjusted) AS f_latent, ratio(won_latent, n_adjusted) AS bt_latent,
       ratio(lost_sticky, n_adjusted) AS f_sticky, ratio(won_sticky, n_adjusted) AS bt_sticky,
       ratio(lost_answer, n_exchangeable) AS f_answer, ratio(won_answer, n_exchangeable) AS bt_answer,
       ratio(lost_format, n_exchangeable) AS f_format, ratio(won_format, n_exchangeable) AS bt_format,
       f_answer + f_format AS f_exch, bt_answer + bt_format AS bt_exch,
       ratio(lost_known, n_adjusted) AS f_known, ratio(lost_known_max, n_adjusted) AS f_known_max,
       ratio(won_known, n_adjusted) AS bt_known, ratio(won_known_max, n_adjusted) AS bt_known_max,
       mcnemar_exact(n10, n01) AS mcnemar_p, mcnemar_midp(n10, n01) AS mcnemar_mid_p,
       net_lo(n11, n10, n01, n00) AS net_lo, net_hi(n11, n10, n01, n00) AS net_hi
FROM shown WHERE n > 0;
COMMENT ON MACRO TABLE task_replicates_of IS 'task_replicates for two given models, declared as a pair or not.';

CREATE VIEW task_replicates AS FROM task_replicates_of();
COMMENT ON VIEW task_replicates IS 'Every metric of every declared pair per setting, task and replicate, with its counts and paired tests.';

-- Standard errors over items. Grain: (pair, setting, task). An item is one cluster: its replicates are averaged first.
-- f_true: delta method, the influence of one item on F - (1-a_pre)(1-a_post)/(k-1) within its number of options. Its interval
-- has two pseudo-items as well, an item that was lost for sure and one wrong both times: without them it covers .90 at 50 items.
CREATE MACRO true_squares(squares, with_before, with_after, before_squares, products, after_squares, x, y) AS
    squares - 2 * (x * with_before + y * with_after) + x^2 * before_squares + 2 * x * y * products + y^2 * after_squares;
COMMENT ON MACRO true_squares IS 'Sum of squares of f - x wrong_before - y wrong_after, from the sums of its products.';
CREATE MACRO task_errors_of(before_model := NULL, after_model := NULL) AS TABLE
WITH stratum AS (
    SELECT *, bool_or(blind) OVER task AS task_blind, bool_or(answer = 'multi' AND n > 0) OVER task AS multi,
           NOT multi AND known_method(answer, n_options, task_blind) = 'exchangeable' AS exchangeable,
           guess_odds(n_options) * ratio(wrong_after_sum, n) AS x, guess_odds(n_options) * ratio(wrong_before_sum, n) AS y,
           chance_factor(n_options) AS c, c / (n_options - 2e0) AS c_down, n_options >= 3 AS wide
    FROM item_sums_of(before_model, after_model)
    WINDOW task AS (PARTITION BY before_id, after_id, setting, task_id)),
known AS (
    SELECT *, f_sum - x * wrong_before_sum - y * wrong_after_sum AS f_true_sum, bt_sum - x * wrong_before_sum - y * wrong_after_sum AS bt_true_sum,
           true_squares(f_squares, f_before, f_after, wrong_before_squares, wrong_both, wrong_after_squares, x, y) AS f_true_squares,
           true_squares(bt_squares, bt_before, bt_after, wrong_before_squares, wrong_both, wrong_after_squares, x, y) AS bt_true_squares,
           CASE WHEN exchangeable THEN f_exch_sum WHEN NOT multi THEN f_latent_sum END AS f_known_sum,
           CASE WHEN exchangeable THEN f_exch_squares WHEN NOT multi THEN f_latent_squares END AS f_known_squares,
           CASE WHEN exchangeable THEN f_exch_sum WHEN NOT multi THEN c * f_sum END AS f_known_max_sum,
           CASE WHEN exchangeable THEN f_exch_squares WHEN NOT multi THEN c^2 * f_squares END AS f_known_max_squares,
           CASE WHEN exchangeable THEN bt_exch_sum WHEN NOT multi THEN bt_latent_sum END AS bt_known_sum,
           CASE WHEN exchangeable THEN bt_exch_squares WHEN NOT multi THEN bt_latent_squares END AS bt_known_squares,
           CASE WHEN exchangeable THEN bt_exch_sum WHEN NOT multi THEN c * bt_sum END AS bt_known_max_sum,
           CASE WHEN exchangeable THEN bt_exch_squares WHEN NOT multi THEN c^2 * bt_squares END AS bt_known_max_squares
    FROM stratum),
task AS (
    SELECT before_id, after_id, setting, task_id, multi, CAST(sum(n) AS BIGINT) AS n_items,
           CAST(coalesce(sum(n) FILTER (exchangeable), 0) AS BIGINT) AS n_exch, nullif(CAST(sum(n_replicated) AS BIGINT), 0) AS n_replicated,
           coalesce(bool_or(blind_x), FALSE) OR bool_or(answer = 'multi' AND n_replicated > 0) AS unidentified,
           CAST(if(unidentified, 0, coalesce(sum(n_replicated) FILTER (wide), 0)) AS BIGINT) AS n_wide,
           ratio(sum(n * c) FILTER (exchangeable), n_exch) AS up, ratio(sum(n * c_down) FILTER (exchangeable), n_exch) AS down,
           ratio(sum(n_replicated * c) FILTER (wide), n_wide) AS up_x, ratio(sum(n_replicated * c_down) FILTER (wide), n_wide) AS down_x,
           ratio(sum(n * (x + y)), n_items) AS true_down, sum(COLUMNS('_(sum|squares)$')) AS '\0',
           sum(COLUMNS('^(f|bt)_exch_(sum|squares)$')) FILTER (exchangeable) AS '\0_used'
    FROM known GROUP BY before_id, after_id, setting, task_id, multi)
SELECT before_id, after_id, setting, task_id, n_items,
       item_se(n_items, wrong_before_sum, wrong_before_squares) AS a_pre_se, item_se(n_items, wrong_after_sum, wrong_after_squares) AS a_post_se,
       item_se(n_items, f_sum, f_squares) AS f_se, item_se(n_items, bt_sum, bt_squares) AS bt_se, item_se(n_items, net_sum, net_squares) AS net_se,
       if(multi, NULL, item_se(n_items, f_true_sum, f_true_squares)) AS f_true_se,
       if(multi, NULL, item_se(n_items, bt_true_sum, bt_true_squares)) AS bt_true_se,
       if(multi, NULL, padded_mean(n_items, f_true_sum, 1, true_down) - ratio(f_true_sum, n_items)) AS f_true_shift,
       if(multi, NULL, padded_mean(n_items, bt_true_sum, 1, true_down) - ratio(bt_true_sum, n_items)) AS bt_true_shift,
       if(multi, NULL, padded_se(n_items, f_true_sum, f_true_squares, 1, true_down)) AS f_true_padded,
       if(multi, NULL, padded_se(n_items, bt_true_sum, bt_true_squares, 1, true_down)) AS bt_true_padded,
       if(multi, NULL, item_se(n_items, f_latent_sum, f_latent_squares)) AS f_latent_se,
       if(multi, NULL, item_se(n_items, bt_latent_sum, bt_latent_squares)) AS bt_latent_se, n_exch,
       padded_mean(n_exch, f_exch_sum_used, up, down) AS f_exch_mid, padded_se(n_exch, f_exch_sum_used, f_exch_squares_used, up, down) AS f_exch_se,
       padded_mean(n_exch, bt_exch_sum_used, up, down) AS bt_exch_mid, padded_se(n_exch, bt_exch_sum_used, bt_exch_squares_used, up, down) AS bt_exch_se,
       padded_mean(n_items, f_known_sum, up, down) AS f_known_mid, padded_mean(n_items, f_known_max_sum, up, down) AS f_known_max_mid,
       padded_se(n_items, f_known_sum, f_known_squares, up, down) AS f_known_se,
       padded_se(n_items, f_known_max_sum, f_known_max_squares, up, down) AS f_known_max_se,
       padded_mean(n_items, bt_known_sum, up, down) AS bt_known_mid, padded_mean(n_items, bt_known_max_sum, up, down) AS bt_known_max_mid,
       padded_se(n_items, bt_known_sum, bt_known_squares, up, down) AS bt_known_se,
       padded_se(n_items, bt_known_max_sum, bt_known_max_squares, up, down) AS bt_known_max_se,
       -- against oneself (section 6): items measured at least twice by both models; NULL without them
       n_replicated, ratio(f_self_sum, n_replicated) AS f_self,
       ratio(f_sym_sum, n_replicated) AS f_sym, ratio(bt_sym_sum, n_replicated) AS bt_sym, ratio(v_sum, n_replicated) AS v,
       item_se(n_replicated, f_sym_sum, f_sym_squares) AS f_sym_se, item_se(n_replicated, bt_sym_sum, bt_sym_squares) AS bt_sym_se,
       item_se(n_replicated, v_sum, v_squares) AS v_se, if(n_replicated IS NULL, NULL, n_wide) AS n_exch_x,
       ratio(f_exch_x_sum, n_wide) AS f_exch_x, item_se(n_wide, f_exch_x_sum, f_exch_x_squares) AS f_exch_x_se,
       ratio(bt_exch_x_sum, n_wide) AS bt_exch_x, item_se(n_wide, bt_exch_x_sum, bt_exch_x_squares) AS bt_exch_x_se,
       padded_mean(n_wide, f_exch_x_sum, up_x, down_x) AS f_exch_x_mid, padded_se(n_wide, f_exch_x_sum, f_exch_x_squares, up_x, down_x) AS f_exch_x_padded,
       padded_mean(n_wide, bt_exch_x_sum, up_x, down_x) AS bt_exch_x_mid, padded_se(n_wide, bt_exch_x_sum, bt_exch_x_squares, up_x, down_x) AS bt_exch_x_padded
FROM task;
COMMENT ON MACRO TABLE task_errors_of IS 'Standard errors over items of the metrics of a task, and what replicates add; replicates of an item averaged first.';

-- ==== 6. against oneself: what replicates add =========================================================================

-- f_exch_x = f_exch(before, after) - mean of the two self comparisons: 0 in expectation when nothing changed, whatever
-- the partial knowledge, slips or distractors. F_sym, BT_sym likewise; V = F_sym + BT_sym, BT_sym - F_sym = net.
-- All of it are columns of task_errors_of: the items are the same, their scores are those of item_scores_of.

-- Grain:  (model_id, setting, task_id, itemset_id, protocol_id), items with two or more measured replicates.
-- F_self = BT_self, since both orders of two replicates count: shown once.
CREATE VIEW noise_floor AS
WITH alike AS (
    SELECT f.model_id, f.setting, f.task_id, f.itemset_id, f.protocol_id, s.n_options, p.codes, sum(i.n) AS n, bool_or(s.answer = 'multi') AS multi
    FROM (SELECT series_id, stratum, pattern, count(*) AS n FROM item_patterns_of() GROUP BY ALL) AS i
    JOIN pattern_codes_of() AS p USING (pattern) JOIN strata AS s USING (stratum)
    JOIN (SELECT DISTINCT series_id, model_id, setting, task_id, itemset_id, protocol_id FROM run_facts) AS f USING (series_id)
    WHERE len(p.codes) >= 2 GROUP BY ALL),
opened AS (SELECT n_options, codes, unnest(codes) AS b FROM (SELECT DISTINCT n_options, codes FROM alike)),
met AS (SELECT n_options, codes, b, unnest(codes) AS a FROM opened),
score AS (
    SELECT n_options, codes, avg(CAST(b & 65535 = 0 AND a & 65535 <> 0 AS DOUBLE)) AS f, avg(exchange_score(n_options, b & 65535, a & 65535)) AS f_exch,
           bool_or(n_options >= 3 AND ((b & 65535 = 2 AND a & 65535 >= 2) OR (b & 65535 >= 2 AND a & 65535 = 2))) AS blind
    FROM met WHERE b >> 16 <> a >> 16 GROUP BY ALL)
SELECT model_id, setting, task_id, itemset_id, protocol_id, CAST(sum(n) AS BIGINT) AS n_items, ratio(sum(n * f), n_items) AS f_self,
       item_se(n_items, sum(n * f), sum(n * f^2)) AS f_self_se,
       CASE WHEN NOT bool_or(coalesce(blind, FALSE) OR multi) THEN ratio(sum(n * f_exch), sum(n) FILTER (f_exch IS NOT NULL)) END AS f_exch_self
FROM alike JOIN score ON score.codes = alike.codes AND score.n_options IS NOT DISTINCT FROM alike.n_options
GROUP BY model_id, setting, task_id, itemset_id, protocol_id;
COMMENT ON VIEW noise_floor IS 'How much a model forgets against itself from one replicate to the next: the noise under every F and BT.';

-- Grain:  (pair, setting, task, set size m): seed-consistent transitions over every set of m replicates, m = 2, 3.
-- An item counts in a set when its transition is the same in all m. It conditions on determinism: no estimate of F,
-- and the variance over sets is no standard error. Source: the code of arXiv 2510.17776.
CREATE MACRO seed_consistent_of(before_model := NULL, after_model := NULL) AS TABLE
WITH seen AS MATERIALIZED (
    SELECT pair_id, before_id, after_id, setting, task_id, replicate, sample_key, transition
    FROM transition_rows(before_model, after_model, ['pair']) WHERE transition IS NOT NULL),
replicates AS (SELECT DISTINCT pair_id, before_id, after_id, setting, task_id, replicate FROM seen),
sets AS (
    SELECT x.* EXCLUDE (replicate), [x.replicate, y.replicate] AS members
    FROM replicates AS x JOIN replicates AS y USING (before_id, after_id, setting, task_id) WHERE x.replicate < y.replicate
    UNION ALL
    SELECT x.* EXCLUDE (replicate), [x.replicate, y.replicate, z.replicate]
    FROM replicates AS x JOIN replicates AS y USING (before_id, after_id, setting, task_id)
    JOIN replicates AS z USING (before_id, after_id, setting, task_id) WHERE x.replicate < y.replicate AND y.replicate < z.replicate),
same AS (
    SELECT s.*, r.sample_key, any_value(r.transition) AS transition
    FROM sets AS s JOIN seen AS r USING (before_id, after_id, setting, task_id)
    WHERE list_contains(s.members, r.replicate)
    GROUP BY ALL HAVING count(*) = len(s.members) AND min(r.transition) = max(r.transition)),
counted AS (
    SELECT s.*, count(k.sample_key) AS n, count(*) FILTER (transition = '1->1') AS n11, count(*) FILTER (transition = '1->0') AS n10,
           count(*) FILTER (transition = '0->1') AS n01, count(*) FILTER (transition = '0->0') AS n00
    FROM sets AS s LEFT JOIN same AS k USING (before_id, after_id, setting, task_id, members) GROUP BY ALL)
SELECT pair_id, before_id, after_id, setting, task_id, len(members) AS set_size, count(*) AS n_sets,
       avg(COLUMNS('^n\d*$')) AS '\0_mean', var_samp(COLUMNS('^n\d*$')) AS '\0_var', ratio(sum(n10), sum(n)) AS f_consistent,
       ratio(sum(n01), sum(n)) AS bt_consistent
FROM counted GROUP BY pair_id, before_id, after_id, setting, task_id, set_size;
COMMENT ON MACRO TABLE seed_consistent_of IS 'seed_consistent for two given models.';
CREATE VIEW seed_consistent AS FROM seed_consistent_of();
COMMENT ON VIEW seed_consistent IS 'Transitions that are the same in every replicate of a set, mean and variance over sets; no estimate of F.';

-- Grain:  (run_id, n_options), runs with option scores: among answers that are wrong, how often gold comes second.
-- Nulls:  items with several golds or unknown gold are left out; a score equal to gold's counts as before it.
-- Read:   well above gold_second_expected, many wrong answers are near ties, and f_exch reads partial knowledge as change.
-- Source: docs/metrics.md, section 3 (diagnostics).    Check: test_metrics.py::test_gold_rank_by_hand
CREATE VIEW gold_rank AS
WITH wrong AS (
    SELECT o.run_id, s.n_options, list_sum(list_transform(v.scores, lambda x: CAST(x >= v.scores[CAST(s.gold[1] AS INTEGER) + 1] AS INTEGER))) AS rank
    FROM outcomes AS o JOIN runs AS r USING (run_id) JOIN samples AS s ON s.itemset_id = r.itemset_id AND s.item = o.item
    JOIN option_scores AS v ON v.run_id = o.run_id AND v.item = o.item
    WHERE s.answer = 'choice' AND NOT o.correct AND s.gold IS NOT NULL)
SELECT run_id, f.model_id, f.setting, f.task_id, f.replicate, n_options, count(*) AS n_wrong, ratio(count(*) FILTER (rank = 2), count(*)) AS gold_second,
       wilson_lo(count(*) FILTER (rank = 2), count(*)) AS gold_second_lo, wilson_hi(count(*) FILTER (rank = 2), count(*)) AS gold_second_hi,
       1e0 / (n_options - 1) AS gold_second_expected
FROM wrong JOIN run_facts AS f USING (run_id) GROUP BY ALL;
COMMENT ON VIEW gold_rank IS 'How often the right option is the second choice where a model is wrong, against 1/(k-1): partial knowledge, near ties.';

-- ==== 7. metrics of a task, a category, a pair ========================================================================
-- Values are means over replicates; x_sd_seed is their sample sd (NULL for one replicate), x_se the error over items.

-- Grain:  (pair, setting, task).    Nulls: as task_replicates; f_self ... f_exch_x without two replicates of both models.
-- Intervals: F, BT Wilson; f_exch, f_known padded_mean +- 1.96 padded_se (from f_known's lower to f_known_max's upper
--         end; free-form Wilson); f_exch_x padded likewise; F_true value +- 1.96 se.
CREATE MACRO task_metrics_of(before_model := NULL, after_model := NULL) AS TABLE
WITH value AS (
    SELECT pair_id, before_id, after_id, setting, task_id, count(*) AS n_replicates, one_of(list(DISTINCT method)) AS method,
           bool_or(sparse) AS sparse,
           avg(COLUMNS('^(a_|f$|f_|bt|bec|net$|flips|all_flips)')) AS '\0',
           stddev_samp(COLUMNS('^(a_pre|a_post|net|f|bt|(f|bt)_(true|exch|known))$')) AS '\0_sd_seed'
    FROM task_replicates_of(before_model, after_model) GROUP BY pair_id, before_id, after_id, setting, task_id)
SELECT v.*, e.* EXCLUDE (before_id, after_id, setting, task_id, f_exch_mid, bt_exch_mid, f_known_mid, f_known_max_mid, bt_known_mid, bt_known_max_mid,
            f_exch_x_mid, f_exch_x_padded, bt_exch_x_mid, bt_exch_x_padded, f_true_shift, bt_true_shift, f_true_padded, bt_true_padded),
       wilson_lo(f * n_items, n_items) AS f_lo, wilson_hi(f * n_items, n_items) AS f_hi,
       wilson_lo(bt * n_items, n_items) AS bt_lo, wilson_hi(bt * n_items, n_items) AS bt_hi,
       f_true_unclipped + f_true_shift - z95() * f_true_padded AS f_true_lo, f_true_unclipped + f_true_shift + z95() * f_true_padded AS f_true_hi,
       bt_true_unclipped + bt_true_shift - z95() * bt_true_padded AS bt_true_lo,
       bt_true_unclipped + bt_true_shift + z95() * bt_true_padded AS bt_true_hi,
       if(f_exch IS NULL, NULL, f_exch_mid - z95() * f_exch_se) AS f_exch_lo, if(f_exch IS NULL, NULL, f_exch_mid + z95() * f_exch_se) AS f_exch_hi,
       if(bt_exch IS NULL, NULL, bt_exch_mid - z95() * bt_exch_se) AS bt_exch_lo, if(bt_exch IS NULL, NULL, bt_exch_mid + z95() * bt_exch_se) AS bt_exch_hi,
       CASE WHEN method = 'free-form' THEN f_lo ELSE f_known_mid - z95() * f_known_se END AS f_known_lo,
       CASE WHEN method = 'free-form' THEN f_hi ELSE f_known_max_mid + z95() * f_known_max_se END AS f_known_hi,
       CASE WHEN method = 'free-form' THEN bt_lo ELSE bt_known_mid - z95() * bt_known_se END AS bt_known_lo,
       CASE WHEN method = 'free-form' THEN bt_hi ELSE bt_known_max_mid + z95() * bt_known_max_se END AS bt_known_hi,
       if(f_exch_x IS NULL, NULL, f_exch_x_mid - z95() * f_exch_x_padded) AS f_exch_x_lo,
       if(f_exch_x IS NULL, NULL, f_exch_x_mid + z95() * f_exch_x_padded) AS f_exch_x_hi,
       if(bt_exch_x IS NULL, NULL, bt_exch_x_mid - z95() * bt_exch_x_padded) AS bt_exch_x_lo,
       if(bt_exch_x IS NULL, NULL, bt_exch_x_mid + z95() * bt_exch_x_padded) AS bt_exch_x_hi
FROM value AS v
JOIN task_errors_of(before_model, after_model) AS e USING (before_id, after_id, setting, task_id);
COMMENT ON MACRO TABLE task_metrics_of IS 'task_metrics for two given models, declared as a pair or not.';
CREATE VIEW task_metrics AS FROM task_metrics_of();
COMMENT ON VIEW task_metrics IS 'Every metric of every declared pair per setting and task, over replicates, with intervals over items.';

-- Grain:  (map, task_id). Every map sorts every task: what it leaves out is Other. Map benchmark needs no declaration.
CREATE VIEW task_categories AS
SELECT m.map, t.task_id, coalesce(c.category, 'Other') AS category
FROM (SELECT DISTINCT map FROM categories) AS m CROSS JOIN tasks AS t
LEFT JOIN categories AS c ON c.map = m.map AND c.task_id = t.task_id
UNION ALL
SELECT 'benchmark', task_id, benchmark FROM tasks;
COMMENT ON VIEW task_categories IS 'The category of every task in every map; Other where a map is silent; map benchmark sorts by benchmark.';

-- Grain:  (pair, setting, map, category, replicate).    Source: aggregation of arXiv 2510.17776.
CREATE MACRO category_replicates_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT pair_id, before_id, after_id, setting, map, category, replicate, count(*) AS n_tasks, count(f_true) AS n_tasks_adjusted,
       CAST(sum(n) AS BIGINT) AS n, CAST(sum(n10) AS BIGINT) AS n10, CAST(sum(n01) AS BIGINT) AS n01,
       CAST(sum(n_unpaired_before + n_unpaired_after) AS BIGINT) AS n_unpaired,
       avg(COLUMNS('^(a_|f$|f_|bt|bec|net$|flips|all_flips)')) AS '\0'
FROM task_replicates_of(before_model, after_model) JOIN task_categories USING (task_id)
GROUP BY pair_id, before_id, after_id, setting, map, category, replicate;
COMMENT ON MACRO TABLE category_replicates_of IS 'Unweighted mean over the tasks of a category, per replicate.';

-- Above a task: square-and-add over its tasks (Newcombe 1998; Zou and Donner 2008): lower = mean - sqrt(sum (x - lo)^2)/T.
-- It is var(category) = sum var_task / T^2 where intervals are symmetric, and the task's own interval where T = 1.
CREATE MACRO reach(x, bound) AS sqrt(sum((x - bound)^2)) / nullif(count(x - bound), 0);
COMMENT ON MACRO reach IS 'Aggregate: distance from a mean of independent parts to an end of its interval, from the parts'' intervals.';

-- Grain:  (pair, setting, map, category).
CREATE MACRO category_errors_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT before_id, after_id, setting, map, category, one_of(list(DISTINCT method)) AS method, bool_or(sparse) AS sparse,
       CAST(sum(n_items) AS BIGINT) AS n_items, CAST(sum(n_replicated) AS BIGINT) AS n_replicated,
       CAST(sum(n_exch_x) AS BIGINT) AS n_exch_x, count(f_exch) AS n_tasks_exch, count(f_exch_x) AS n_tasks_x,
       avg(COLUMNS('^(f_self|f_sym|bt_sym|v|f_exch_x|bt_exch_x)$')) AS '\0',
       sqrt(sum(COLUMNS('_se$')^2)) / nullif(count(COLUMNS('_se$')), 0) AS '\0',
       reach(f, f_lo) AS f_down, reach(f, f_hi) AS f_up, reach(bt, bt_lo) AS bt_down, reach(bt, bt_hi) AS bt_up,
       reach(f_true_unclipped, f_true_lo) AS f_true_down, reach(f_true_unclipped, f_true_hi) AS f_true_up,
       reach(bt_true_unclipped, bt_true_lo) AS bt_true_down, reach(bt_true_unclipped, bt_true_hi) AS bt_true_up,
       reach(f_exch, f_exch_lo) AS f_exch_down, reach(f_exch, f_exch_hi) AS f_exch_up,
       reach(bt_exch, bt_exch_lo) AS bt_exch_down, reach(bt_exch, bt_exch_hi) AS bt_exch_up,
       reach(f_exch_x, f_exch_x_lo) AS f_exch_x_down, reach(f_exch_x, f_exch_x_hi) AS f_exch_x_up,
       reach(f_known, f_known_lo) AS f_known_down, reach(f_known_max, f_known_hi) AS f_known_up,
       reach(bt_exch_x, bt_exch_x_lo) AS bt_exch_x_down, reach(bt_exch_x, bt_exch_x_hi) AS bt_exch_x_up,
       reach(bt_known, bt_known_lo) AS bt_known_down, reach(bt_known_max, bt_known_hi) AS bt_known_up
FROM task_metrics_of(before_model, after_model) JOIN task_categories USING (task_id)
GROUP BY before_id, after_id, setting, map, category;
COMMENT ON MACRO TABLE category_errors_of IS 'Errors over items and self comparisons of a category: its tasks are independent, each counts 1/T.';

CREATE MACRO category_metrics_of(before_model := NULL, after_model := NULL) AS TABLE
WITH value AS (
    SELECT pair_id, before_id, after_id, setting, map, category, count(*) AS n_replicates, max(n_tasks) AS n_tasks,
           max(n_tasks_adjusted) AS n_tasks_adjusted, max(n_unpaired) AS n_unpaired,
           max(n10) FILTER (replicate = 0) AS n10_pooled, max(n01) FILTER (replicate = 0) AS n01_pooled,
           avg(COLUMNS('^(a_|f$|f_|bt|bec|net$|flips|all_flips)')) AS '\0',
           stddev_samp(COLUMNS('^(a_pre|a_post|net|f|bt|(f|bt)_(true|exch|known))$')) AS '\0_sd_seed'
    FROM (FROM category_replicates_of(before_model, after_model)  -- a replicate that lacks a task has another mean: left out
          QUALIFY n_tasks = max(n_tasks) OVER (PARTITION BY before_id, after_id, setting, map, category))
    GROUP BY pair_id, before_id, after_id, setting, map, category)
SELECT v.*, e.* EXCLUDE (before_id, after_id, setting, map, category,
            f_down, f_up, bt_down, bt_up, f_true_down, f_true_up, bt_true_down, bt_true_up,
            f_exch_down, f_exch_up, bt_exch_down, bt_exch_up, f_known_down, f_known_up, bt_known_down, bt_known_up,
            f_exch_x_down, f_exch_x_up, bt_exch_x_down, bt_exch_x_up),
       mcnemar_exact(n10_pooled, n01_pooled) AS mcnemar_p_pooled, mcnemar_midp(n10_pooled, n01_pooled) AS mcnemar_mid_p_pooled,
       f - f_down AS f_lo, f + f_up AS f_hi,
       bt - bt_down AS bt_lo, bt + bt_up AS bt_hi,
       f_true_unclipped - f_true_down AS f_true_lo, f_true_unclipped + f_true_up AS f_true_hi,
       bt_true_unclipped - bt_true_down AS bt_true_lo, bt_true_unclipped + bt_true_up AS bt_true_hi,
       f_exch - f_exch_down AS f_exch_lo, f_exch + f_exch_up AS f_exch_hi,
       bt_exch - bt_exch_down AS bt_exch_lo, bt_exch + bt_exch_up AS bt_exch_hi,
       f_known - f_known_down AS f_known_lo, f_known_max + f_known_up AS f_known_hi,
       bt_known - bt_known_down AS bt_known_lo, bt_known_max + bt_known_up AS bt_known_hi,
       f_exch_x - f_exch_x_down AS f_exch_x_lo, f_exch_x + f_exch_x_up AS f_exch_x_hi,
       bt_exch_x - bt_exch_x_down AS bt_exch_x_lo, bt_exch_x + bt_exch_x_up AS bt_exch_x_hi
FROM value AS v JOIN category_errors_of(before_model, after_model) AS e USING (before_id, after_id, setting, map, category);
COMMENT ON MACRO TABLE category_metrics_of IS 'category_metrics for two given models, declared as a pair or not.';
CREATE VIEW category_metrics AS FROM category_metrics_of();
COMMENT ON VIEW category_metrics IS 'Every metric of every declared pair per setting, map and category: unweighted mean over tasks, then over replicates.';

-- Grain:  (pair, setting, map): unweighted mean over the map's categories; Other is outside the map and outside the mean.
CREATE MACRO pair_metrics_of(before_model := NULL, after_model := NULL) AS TABLE
WITH replicates AS (
    SELECT pair_id, before_id, after_id, setting, map, replicate, count(*) AS n_categories, CAST(sum(n_tasks) AS BIGINT) AS n_tasks,
           CAST(sum(n_tasks_adjusted) AS BIGINT) AS n_tasks_adjusted, CAST(sum(n) AS BIGINT) AS n, CAST(sum(n10) AS BIGINT) AS n10,
           CAST(sum(n01) AS BIGINT) AS n01, CAST(sum(n_unpaired) AS BIGINT) AS n_unpaired,
           avg(COLUMNS('^(a_|f$|f_|bt|bec|net$|flips|all_flips)')) AS '\0'
    FROM category_replicates_of(before_model, after_model) WHERE category <> 'Other'
    GROUP BY pair_id, before_id, after_id, setting, map, replicate),
value AS (
    SELECT pair_id, before_id, after_id, setting, map, count(*) AS n_replicates, max(n_categories) AS n_categories, max(n_tasks) AS n_tasks,
           max(n_tasks_adjusted) AS n_tasks_adjusted, max(n_unpaired) AS n_unpaired,
           max(n10) FILTER (replicate = 0) AS n10_pooled, max(n01) FILTER (replicate = 0) AS n01_pooled,
           avg(COLUMNS('^(a_|f$|f_|bt|bec|net$|flips|all_flips)')) AS '\0',
           stddev_samp(COLUMNS('^(a_pre|a_post|net|f|bt|(f|bt)_(true|exch|known))$')) AS '\0_sd_seed'
    FROM (FROM replicates QUALIFY n_tasks = max(n_tasks) OVER (PARTITION BY before_id, after_id, setting, map))
    GROUP BY pair_id, before_id, after_id, setting, map),
error AS (
    SELECT before_id, after_id, setting, map, one_of(list(DISTINCT method)) AS method, bool_or(sparse) AS sparse,
           CAST(sum(n_items) AS BIGINT) AS n_items, CAST(sum(n_replicated) AS BIGINT) AS n_replicated, CAST(sum(n_exch_x) AS BIGINT) AS n_exch_x,
           CAST(sum(n_tasks_exch) AS BIGINT) AS n_tasks_exch, CAST(sum(n_tasks_x) AS BIGINT) AS n_tasks_x,
           avg(COLUMNS('^(f_self|f_sym|bt_sym|v|f_exch_x|bt_exch_x)$')) AS '\0',
           sqrt(sum(COLUMNS('_se$')^2)) / nullif(count(COLUMNS('_se$')), 0) AS '\0',
           reach(f, f_lo) AS f_down, reach(f, f_hi) AS f_up,
           reach(bt, bt_lo) AS bt_down, reach(bt, bt_hi) AS bt_up,
           reach(f_true_unclipped, f_true_lo) AS f_true_down, reach(f_true_unclipped, f_true_hi) AS f_true_up,
           reach(bt_true_unclipped, bt_true_lo) AS bt_true_down, reach(bt_true_unclipped, bt_true_hi) AS bt_true_up,
           reach(f_exch, f_exch_lo) AS f_exch_down, reach(f_exch, f_exch_hi) AS f_exch_up,
           reach(bt_exch, bt_exch_lo) AS bt_exch_down, reach(bt_exch, bt_exch_hi) AS bt_exch_up,
           reach(f_exch_x, f_exch_x_lo) AS f_exch_x_down, reach(f_exch_x, f_exch_x_hi) AS f_exch_x_up,
           reach(f_known, f_known_lo) AS f_known_down, reach(f_known_max, f_known_hi) AS f_known_up,
           reach(bt_exch_x, bt_exch_x_lo) AS bt_exch_x_down, reach(bt_exch_x, bt_exch_x_hi) AS bt_exch_x_up,
           reach(bt_known, bt_known_lo) AS bt_known_down, reach(bt_known_max, bt_known_hi) AS bt_known_up
    FROM category_metrics_of(before_model, after_model) WHERE category <> 'Other' GROUP BY before_id, after_id, setting, map)
SELECT v.*, e.* EXCLUDE (before_id, after_id, setting, map,
            f_down, f_up, bt_down, bt_up, f_true_down, f_true_up, bt_true_down, bt_true_up,
            f_exch_down, f_exch_up, bt_exch_down, bt_exch_up, f_known_down, f_known_up, bt_known_down, bt_known_up,
            f_exch_x_down, f_exch_x_up, bt_exch_x_down, bt_exch_x_up),
       mcnemar_exact(n10_pooled, n01_pooled) AS mcnemar_p_pooled, mcnemar_midp(n10_pooled, n01_pooled) AS mcnemar_mid_p_pooled,
       f - f_down AS f_lo, f + f_up AS f_hi,
       bt - bt_down AS bt_lo, bt + bt_up AS bt_hi,
       f_true_unclipped - f_true_down AS f_true_lo, f_true_unclipped + f_true_up AS f_true_hi,
       bt_true_unclipped - bt_true_down AS bt_true_lo, bt_true_unclipped + bt_true_up AS bt_true_hi,
       f_exch - f_exch_down AS f_exch_lo, f_exch + f_exch_up AS f_exch_hi,
       bt_exch - bt_exch_down AS bt_exch_lo, bt_exch + bt_exch_up AS bt_exch_hi,
       f_known - f_known_down AS f_known_lo, f_known_max + f_known_up AS f_known_hi,
       bt_known - bt_known_down AS bt_known_lo, bt_known_max + bt_known_up AS bt_known_hi,
       f_exch_x - f_exch_x_down AS f_exch_x_lo, f_exch_x + f_exch_x_up AS f_exch_x_hi,
       bt_exch_x - bt_exch_x_down AS bt_exch_x_lo, bt_exch_x + bt_exch_x_up AS bt_exch_x_hi
FROM value AS v JOIN error AS e USING (before_id, after_id, setting, map);
COMMENT ON MACRO TABLE pair_metrics_of IS 'pair_metrics for two given models, declared as a pair or not.';
CREATE VIEW pair_metrics AS FROM pair_metrics_of();
COMMENT ON VIEW pair_metrics IS 'Every metric of every declared pair per setting and map: unweighted mean over categories, then over replicates.';

-- Grain:  (setting, map, category) of two given models; maps that sort none of their tasks are left out.
-- knowledge: checked against both models' own noise where EVERY item of the category has replicates of both models and 3
--         options or more (f_exch_x) or is free-form (F_sym), else f_known, unchecked.
CREATE MACRO forgetting(before_model, after_model) AS TABLE
WITH row AS (
    SELECT *, CASE WHEN n_exch_x = n_items THEN 'exchangeable' WHEN method = 'free-form' AND n_replicated = n_items THEN 'free-form' END AS checked
    FROM category_metrics_of(before_model, after_model)),
known AS (
    SELECT *, unnest(CASE checked
        WHEN 'exchangeable' THEN {'f_knowledge': f_exch_x, 'f_knowledge_lo': f_exch_x_lo, 'f_knowledge_hi': f_exch_x_hi,
                                  'bt_knowledge': bt_exch_x, 'bt_knowledge_lo': bt_exch_x_lo, 'bt_knowledge_hi': bt_exch_x_hi}
        WHEN 'free-form' THEN {'f_knowledge': f_sym, 'f_knowledge_lo': f_sym - z95() * f_sym_se, 'f_knowledge_hi': f_sym + z95() * f_sym_se,
                               'bt_knowledge': bt_sym, 'bt_knowledge_lo': bt_sym - z95() * bt_sym_se, 'bt_knowledge_hi': bt_sym + z95() * bt_sym_se}
        ELSE {'f_knowledge': f_known, 'f_knowledge_lo': f_known_lo, 'f_knowledge_hi': f_known_hi,
              'bt_knowledge': bt_known, 'bt_knowledge_lo': bt_known_lo, 'bt_knowledge_hi': bt_known_hi} END)
    FROM row)
SELECT setting, map, category, n_tasks, n_items, n_replicates, a_pre, a_post, f, f_lo, f_hi, bt, bt_lo, bt_hi, f_true, bt_true,
       f_knowledge, f_knowledge_lo, f_knowledge_hi, bt_knowledge, bt_knowledge_lo, bt_knowledge_hi,
       coalesce(checked || ', against itself', method || ', unchecked') AS knowledge_method,
       n10_pooled, n01_pooled, mcnemar_p_pooled, n_unpaired, sparse
FROM known WHERE map IN (SELECT map FROM row WHERE category <> 'Other');
COMMENT ON MACRO TABLE forgetting IS 'FROM forgetting(''A'', ''B''): what B forgot and gained against A, by category, raw and beyond luck, with intervals.';

-- Grain:  (setting, map) of two given models: pair_metrics with one best answer to what was lost and gained, and its name.
-- metric: f_exch_x where any item allows it, else f_sym where any has replicates of both, else f_known, unchecked; n_beyond: its items.
CREATE MACRO headline(before_model, after_model) AS TABLE
SELECT *, CASE WHEN n_exch_x > 0 THEN 'f_exch_x' WHEN n_replicated > 0 THEN 'f_sym' ELSE 'f_known' END AS metric,
       CASE metric WHEN 'f_exch_x' THEN n_exch_x WHEN 'f_sym' THEN n_replicated ELSE n_items END AS n_beyond,
       unnest(CASE metric
           WHEN 'f_exch_x' THEN {'lost': f_exch_x, 'lost_lo': f_exch_x_lo, 'lost_hi': f_exch_x_hi,
                                 'gained': bt_exch_x, 'gained_lo': bt_exch_x_lo, 'gained_hi': bt_exch_x_hi}
           WHEN 'f_sym' THEN {'lost': f_sym, 'lost_lo': f_sym - z95() * f_sym_se, 'lost_hi': f_sym + z95() * f_sym_se,
                              'gained': bt_sym, 'gained_lo': bt_sym - z95() * bt_sym_se, 'gained_hi': bt_sym + z95() * bt_sym_se}
           ELSE {'lost': f_known, 'lost_lo': f_known_lo, 'lost_hi': f_known_hi,
                 'gained': bt_known, 'gained_lo': bt_known_lo, 'gained_hi': bt_known_hi} END)
FROM pair_metrics_of(before_model, after_model);
COMMENT ON MACRO TABLE headline IS 'FROM headline(''A'', ''B''): what B lost and gained against A beyond noise, or beyond luck and unchecked, per setting and map.';

-- ==== 8. many tasks, and what could have been seen ====================================================================

-- q of p among the p values of its family: min over x >= p of x m / #{y <= x}, m the values that are not NULL. Ties get one q.
CREATE MACRO bh_q(p, family_ps) AS
    list_min(list_transform(
        list_filter(list_zip(list_sort(list_filter(family_ps, lambda x: x IS NOT NULL)), range(1, len(family_ps) + 1)), lambda z: z[1] >= p),
        lambda z: z[1] * len(list_filter(family_ps, lambda x: x IS NOT NULL)) / CAST(z[2] AS DOUBLE)));
COMMENT ON MACRO bh_q IS 'Benjamini-Hochberg q of p among list family_ps: the smallest false discovery rate at which p is called; NULL of NULL.';
CREATE MACRO mde80(se) AS 2.8e0 * nullif(se, 0);
COMMENT ON MACRO mde80 IS 'Smallest true value found with 80% power at 5%, two-sided: 2.8 se (1.96 + 0.84); NULL where se is 0.';

-- Grain:  (pair, setting, task): the first replicate, since replicates of an item are no independent tests.
-- Source: Benjamini and Hochberg 1995. The family is all tasks of a pair and setting.    Check: test_many_tasks.py
CREATE MACRO task_tests_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT pair_id, before_id, after_id, setting, task_id, replicate, n, n10, n01, net, net_lo, net_hi, sparse, mcnemar_p, mcnemar_mid_p,
       bh_q(mcnemar_p, list(mcnemar_p) OVER family) AS mcnemar_q, bh_q(mcnemar_mid_p, list(mcnemar_mid_p) OVER family) AS mcnemar_mid_q,
       count(mcnemar_p) OVER family AS n_tests, 'tasks of ' || coalesce(pair_id, before_id || ' -> ' || after_id) || ', ' || setting AS test_family
FROM (FROM task_replicates_of(before_model, after_model)
      QUALIFY row_number() OVER (PARTITION BY before_id, after_id, setting, task_id ORDER BY replicate) = 1)
WINDOW family AS (PARTITION BY before_id, after_id, setting);
COMMENT ON MACRO TABLE task_tests_of IS 'task_tests for two given models, declared as a pair or not.';
CREATE VIEW task_tests AS FROM task_tests_of();
COMMENT ON VIEW task_tests IS 'McNemar tests of net change of every task, with q values over the tasks of a pair and setting; not a test of forgetting.';

-- Grain:  (level, pair, setting, map, category, task); map and category are NULL for a task, task_id above it.
-- Nulls:  x_mde80 where x is not identified or its se is 0 (nothing flipped: look at its interval).
CREATE VIEW detectable AS
WITH level AS (
    SELECT 'task' AS level, pair_id, setting, task_id, n_items, COLUMNS('^(f|bt|net|(?:f|bt)_(?:true|known|exch|exch_x))_se$') FROM task_metrics
    UNION ALL BY NAME
    SELECT 'category' AS level, pair_id, setting, map, category, n_items, COLUMNS('^(f|bt|net|(?:f|bt)_(?:true|known|exch|exch_x))_se$')
    FROM category_metrics
    UNION ALL BY NAME
    SELECT 'pair' AS level, pair_id, setting, map, n_items, COLUMNS('^(f|bt|net|(?:f|bt)_(?:true|known|exch|exch_x))_se$') FROM pair_metrics)
SELECT level, pair_id, setting, map, category, task_id, n_items, mde80(COLUMNS('^(.*)_se$')) AS '\1_mde80' FROM level;
COMMENT ON VIEW detectable IS 'Smallest true value of every main metric that would be found with 80% power, per task, category and pair: 2.8 se.';

-- ==== 9. kinds of post-training, scale =================================================================================

-- Grain:  (regime): the six of arXiv 2510.17776 in its order, then every other one in use; letter case is no difference.
-- Nulls:  position and meaning of a regime the paper does not have: a catalog may have its own.
CREATE VIEW regimes AS
WITH known(position, regime, meaning) AS (VALUES
    (1, 'Domain-Continual Pretraining', 'A base model is pretrained further on text of one field (code, mathematics) and stays a base model.'),
    (2, 'Instruction Tuning', 'A base model becomes its maker''s general assistant.'),
    (3, 'Trained from Base', 'A base model is trained to reason at length, with no published assistant in between.'),
    (4, 'Trained from Instruct - High Data Scenario', 'An assistant is trained further to reason, on many examples.'),
    (5, 'Trained from Instruct - Low Data Scenario', 'An assistant is trained further to reason, on about a thousand chosen examples.'),
    (6, 'Model Merging', 'Weights of two models are combined, without training.')),
used AS (
    SELECT lower(regime) AS k, min(regime) AS regime, count(*) FILTER (own) AS n_pairs, count(*) FILTER (NOT own) AS n_published
    FROM (SELECT regime, TRUE AS own FROM pairs UNION ALL SELECT regime, FALSE FROM published_results) WHERE regime IS NOT NULL GROUP BY lower(regime))
SELECT position, coalesce(known.regime, used.regime) AS regime, meaning, coalesce(n_pairs, 0) AS n_pairs, coalesce(n_published, 0) AS n_published
FROM known FULL JOIN used ON used.k = lower(known.regime);
COMMENT ON VIEW regimes IS 'Kinds of post-training: those of arXiv 2510.17776 with their meaning, and any other in use.';

-- Grain:  (pair_id, setting, map, category, scaled_by, metric). Category Total is the pair's mean over categories.
-- Nulls:  no row where x is not known or the metric is not identified. Size and family are those of the after model; a regime
--         is written as in `regimes`.
CREATE VIEW scaling_points AS
WITH value AS (
    SELECT pair_id, setting, map, category, COLUMNS('^(f|bt|net|(f|bt)_(true|known|exch|exch_x))(_se)?$') FROM category_metrics WHERE category <> 'Other'
    UNION ALL BY NAME
    SELECT pair_id, setting, map, 'Total' AS category, COLUMNS('^(f|bt|net|(f|bt)_(true|known|exch|exch_x))(_se)?$') FROM pair_metrics),
described AS (
    SELECT p.pair_id, r.regime, coalesce(a.family, b.family) AS family,
           unnest([{'scaled_by': 'n_params', 'x': coalesce(a.n_params, b.n_params)}, {'scaled_by': 'data_examples', 'x': p.data_examples},
                   {'scaled_by': 'data_tokens', 'x': p.data_tokens}], recursive := TRUE)
    FROM pairs AS p LEFT JOIN models AS b ON b.model_id = p.before_id LEFT JOIN models AS a ON a.model_id = p.after_id
    LEFT JOIN regimes AS r ON lower(r.regime) = lower(p.regime)),
point AS (
    SELECT 'catalog' AS source, pair_id, setting, map, regime, category, family, scaled_by, CAST(x AS DOUBLE) AS x,
           unnest([{'metric': 'f', 'y': f, 'y_se': f_se}, {'metric': 'bt', 'y': bt, 'y_se': bt_se}, {'metric': 'net', 'y': net, 'y_se': net_se},
                   {'metric': 'f_true', 'y': f_true, 'y_se': f_true_se}, {'metric': 'bt_true', 'y': bt_true, 'y_se': bt_true_se},
                   {'metric': 'f_known', 'y': f_known, 'y_se': f_known_se}, {'metric': 'bt_known', 'y': bt_known, 'y_se': bt_known_se},
                   {'metric': 'f_exch', 'y': f_exch, 'y_se': f_exch_se}, {'metric': 'bt_exch', 'y': bt_exch, 'y_se': bt_exch_se},
                   {'metric': 'f_exch_x', 'y': f_exch_x, 'y_se': f_exch_x_se}, {'metric': 'bt_exch_x', 'y': bt_exch_x, 'y_se': bt_exch_x_se}],
                  recursive := TRUE)
    FROM value JOIN described USING (pair_id))
FROM point WHERE x > 0 AND y IS NOT NULL;
COMMENT ON VIEW scaling_points IS 'Every metric of every declared pair beside its size, post-training examples and tokens: the points of scaling.';

-- Grain:  as published_results, with a size. In percent, without errors over items.
CREATE VIEW published_points AS
SELECT paper AS source, concat_ws(' -> ', before_model, after_model) AS pair_id, CAST(NULL AS VARCHAR) AS setting, CAST(NULL AS VARCHAR) AS map,
       regime, category, family, 'n_params' AS scaled_by, size_b * 1e9 AS x, metric, value AS y, CAST(NULL AS DOUBLE) AS y_se
FROM published_results WHERE size_b > 0 AND value IS NOT NULL;
COMMENT ON VIEW published_points IS 'Every published figure whose model size is known: the points of published_scaling.';

-- Least squares of y on log10 x. points: name of a view with the columns of scaling_points.
-- Grain:  (source, setting, map, regime, category, scaled_by, metric, family); family 'all' pools the families, whose own
--         rows stand beside it where there is more than one.
-- Weights 1/(y_se^2 + between_var): between_var is Hedges and Olkin's moment estimate for meta-regression, from the residuals e
--         of the unweighted fit and their leverages h: max(0, (sum e^2 - sum (1 - h) y_se^2)/(n - 2)); unlike DerSimonian and
--         Laird's, no small error decides it. slope_weighted_se takes between_var as known: too small on few points.
-- slope_family_se: sandwich over families with the factor G/(G-1) (n-1)/(n-2); needs 3 families, all known.
-- Nulls:  a slope below 3 distinct x, with the reason; the weighted one where an error is not known, or 0 (nothing flipped).
-- Check:  test_scaling.py, by hand, against numpy and on y = a + b log10 N with known b
CREATE MACRO trends_of(points) AS TABLE
WITH scope AS MATERIALIZED (
    WITH point AS (
        SELECT {'source': source, 'setting': setting, 'map': map, 'regime': regime, 'category': category, 'scaled_by': scaled_by, 'metric': metric} AS k,
               family AS member, log10(x) AS x, y, nullif(y_se, 0)^2 AS v FROM query_table(points))
    SELECT k, 'all' AS family, member, x, y, v FROM point
    UNION ALL
    (SELECT k, member, member, x, y, v FROM point WHERE member IS NOT NULL
     QUALIFY min(member) OVER (PARTITION BY k) <> max(member) OVER (PARTITION BY k))),
plain AS (
    SELECT k, family, count(*) AS n_pairs, count(DISTINCT x) AS n_sizes, count(DISTINCT member) AS n_families, n_sizes >= 3 AS enough,
           avg(x) AS mx, avg(y) AS my, regr_sxx(y, x) AS sxx, regr_sxy(y, x) / nullif(sxx, 0) AS b,
           regr_r2(y, x) AS r2, count(v) = count(*) AS has_errors, count(member) = count(*) AND n_families >= 3 AS clustered
    FROM scope GROUP BY k, family),
residual AS (
    SELECT p.*, s.member, s.x - mx AS dx, s.y, s.v, s.y - my - b * dx AS e, 1e0 / n_pairs + dx^2 / sxx AS h
    FROM plain AS p JOIN scope AS s USING (k, family) WHERE enough),
between_models AS (
    SELECT k, family, sum(e^2) AS rss, if(any_value(has_errors), at_least_0((rss - sum((1 - h) * v)) / (max(n_pairs) - 2)), NULL) AS between_var
    FROM residual GROUP BY k, family),
weighed AS (SELECT r.*, rss, between_var, 1e0 / nullif(v + between_var, 0) AS w FROM residual AS r JOIN between_models USING (k, family)),
weighted AS (
    SELECT k, family, sum(w * dx) / sum(w) AS wmx, sum(w * y) / sum(w) AS wmy,
           if(count(w) = count(*), sum(w * dx^2) - sum(w) * wmx^2, NULL) AS wsxx, (sum(w * dx * y) - sum(w) * wmx * wmy) / wsxx AS wb
    FROM weighed GROUP BY k, family),
by_member AS (
    SELECT k, family, member, any_value(between_var) AS between_var, any_value(rss) AS rss, any_value(wb) AS wb, any_value(wsxx) AS wsxx,
           sum(dx * e)^2 AS u, sum(w * (dx - wmx) * (y - wmy - wb * (dx - wmx)))^2 AS wu
    FROM weighed JOIN weighted USING (k, family) GROUP BY k, family, member),
summed AS (
    SELECT k, family, any_value(COLUMNS('^(between_var|rss|wb|wsxx)$')) AS '\0', sum(u) AS u, sum(wu) AS wu FROM by_member GROUP BY k, family),
final AS (
    SELECT *, if(clustered, n_families / (n_families - 1e0) * (n_pairs - 1e0) / (n_pairs - 2e0), NULL) AS few
    FROM plain LEFT JOIN summed USING (k, family))
SELECT unnest(k), family, n_pairs, n_sizes, n_families, if(enough, b, NULL) AS slope, sqrt(rss / (n_pairs - 2) / sxx) AS slope_se,
       if(enough, my - b * mx, NULL) AS intercept, if(enough, r2, NULL) AS r2, wb AS slope_weighted, 1 / sqrt(wsxx) AS slope_weighted_se, between_var,
       sqrt(few * u) / sxx AS slope_family_se, sqrt(few * wu) / wsxx AS slope_weighted_family_se,
       if(enough, NULL, 'needs 3 distinct sizes, has ' || n_sizes) AS reason
FROM final;
COMMENT ON MACRO TABLE trends_of IS 'FROM trends_of(''scaling_points''): slope per decade by least squares over the points of a view, with errors and reasons.';
CREATE VIEW scaling AS FROM trends_of('scaling_points');
COMMENT ON VIEW scaling IS 'Slope of every metric per decade of parameters, post-training examples and tokens over the declared pairs, by regime and category.';
CREATE VIEW published_scaling AS FROM trends_of('published_points');
COMMENT ON VIEW published_scaling IS 'Slope per decade of parameters over published figures (percent, unweighted), by paper, regime, category and metric.';

-- ==== 10. sequences of checkpoints ====================================================================================
-- A lineage is one training run; its checkpoints are ordered by step. Neighbours are compared by run_pairs (consecutive).

-- Grain:  (lineage, setting, task_id, replicate, model_id): the run that stands for a checkpoint, numbered along the lineage.
-- Nulls:  no row for a checkpoint without a run that a neighbouring checkpoint has too.
CREATE VIEW lineage_runs AS
WITH side AS (
    SELECT setting, task_id, replicate, n_common, unnest([before_id, after_id]) AS model_id, unnest([before_run, after_run]) AS run_id
    FROM run_pairs WHERE kind = 'consecutive'),
chosen AS (FROM side QUALIFY row_number() OVER (PARTITION BY setting, task_id, replicate, model_id ORDER BY n_common DESC, run_id) = 1)
SELECT m.lineage, c.setting, c.task_id, c.replicate, c.model_id, m.step, m.stage_task, c.run_id, row_number() OVER line AS checkpoint,
       count(*) OVER (PARTITION BY m.lineage, c.setting, c.task_id, c.replicate) AS n_checkpoints
FROM chosen AS c JOIN models AS m USING (model_id)
WINDOW line AS (PARTITION BY m.lineage, c.setting, c.task_id, c.replicate ORDER BY m.step, c.model_id);
COMMENT ON VIEW lineage_runs IS 'The runs of every lineage in order of step: which run stands for which checkpoint.';

-- Grain:  (lineage, setting, task_id, replicate, sample_key), items measured at every checkpoint; others are left out.
-- Source: forgetting events, unforgettable: Toneva et al. 2019 (arXiv 1812.05159).    Check: test_sequences.py
CREATE VIEW item_histories AS
WITH seen AS (
    SELECT r.lineage, r.setting, r.task_id, r.replicate, r.n_checkpoints, o.sample_key, any_value(o.answer) AS answer, any_value(o.n_options) AS n_options,
           list(r.model_id ORDER BY r.checkpoint) AS checkpoints, list(r.step ORDER BY r.checkpoint) AS steps,
           list(o.correct ORDER BY r.checkpoint) AS answers
    FROM lineage_runs AS r JOIN run_outcomes AS o USING (run_id)
    WHERE o.correct IS NOT NULL GROUP BY ALL HAVING count(*) = r.n_checkpoints)
SELECT *, list_contains(answers, TRUE) AS learned, steps[list_position(answers, TRUE)] AS first_learned,
       len(list_filter(range(1, n_checkpoints), lambda i: answers[i] AND NOT answers[i + 1])) AS n_forgotten,
       CASE WHEN NOT learned THEN 'never learned' WHEN n_forgotten = 0 THEN 'unforgettable' ELSE 'forgotten' END AS history
FROM seen;
COMMENT ON VIEW item_histories IS 'Every item along a lineage: right or wrong at each checkpoint, how often it was forgotten, when it was first right.';

CREATE MACRO luck_lost(k, n_checkpoints) AS coalesce(1 - (1 - 1e0 / k)^(n_checkpoints - 1), 0e0);
COMMENT ON MACRO luck_lost IS 'Chance that an item only guessed at, wrong at the last of n checkpoints, was right at another: 1 - (1 - 1/k)^(n-1).';

-- Grain:  (lineage, setting, task_id). Means over the replicates with the most checkpoints.
-- Luck:   what the same answers at the last checkpoint give when nothing ever changed and guesses are uniform and independent:
--         each final error was right elsewhere with luck_lost; (T-1)/k events for each. A repeated guess gives less.
-- Nulls:  no final error; luck where several options are gold. Not comparable between lineages of other length T.
-- Source: temporal forgetting: arXiv 2505.20196; events: Toneva et al. 2019.    Check: test_sequences.py
CREATE VIEW temporal_forgetting AS
WITH replicates AS (
    SELECT lineage, setting, task_id, replicate, n_checkpoints, count(*) AS n_items, avg(CAST(answers[1] AS INT)) AS a_first,
           avg(CAST(answers[-1] AS INT)) AS a_final, avg(CAST(learned AS INT)) AS ever, ever - a_final AS tfs, ratio(tfs, 1 - a_final) AS lost_of_final_errors,
           avg(n_forgotten) AS events_per_item, avg(CAST(history = 'unforgettable' AS INT)) AS unforgettable, 1 - ever AS never_learned,
           if(bool_or(answer = 'multi'), NULL, avg(if(answers[-1], 0, luck_lost(n_options, n_checkpoints)))) AS tfs_luck,
           ratio(tfs_luck, 1 - a_final) AS lost_of_final_errors_luck,
           if(bool_or(answer = 'multi'), NULL, avg(if(answers[-1], 0, (n_checkpoints - 1) * coalesce(1e0 / n_options, 0e0)))) AS events_per_item_luck
    FROM item_histories GROUP BY lineage, setting, task_id, replicate, n_checkpoints)
SELECT lineage, setting, task_id, n_checkpoints, count(*) AS n_replicates, max(n_items) AS n_items,
       avg(COLUMNS('^(a_first|a_final|ever|tfs|lost_of.*|events.*|unforgettable|never_learned|tfs_luck)$')) AS '\0'
FROM (FROM replicates QUALIFY n_checkpoints = max(n_checkpoints) OVER (PARTITION BY lineage, setting, task_id))
GROUP BY lineage, setting, task_id, n_checkpoints;
COMMENT ON VIEW temporal_forgetting IS 'How much a lineage was ever right on and is wrong on at its end, and how much of that luck alone gives.';

-- Grain:  (lineage, setting, task_id, model_id): the items of item_histories, replicates of an item averaged first.
CREATE VIEW checkpoint_accuracy AS
WITH item AS (
    SELECT lineage, setting, task_id, n_checkpoints, sample_key, answer = 'multi' AS multi, n_options, replicate, unnest(checkpoints) AS model_id,
           unnest(answers) AS correct, unnest(range(1, n_checkpoints + 1)) AS checkpoint
    FROM (FROM item_histories QUALIFY n_checkpoints = max(n_checkpoints) OVER (PARTITION BY lineage, setting, task_id))),
mean AS (
    SELECT lineage, setting, task_id, model_id, checkpoint, sample_key, bool_or(multi) AS multi, avg(CAST(correct AS INT)) AS a,
           avg(if(correct, 1e0, -guess_odds(n_options))) AS above, count(*) AS n_replicates
    FROM item GROUP BY lineage, setting, task_id, model_id, checkpoint, sample_key)
SELECT lineage, setting, task_id, model_id, any_value(m.step) AS step, any_value(m.stage_task) AS stage_task, checkpoint, count(*) AS n_items,
       max(n_replicates) AS n_replicates, avg(a) AS a, sqrt(var_pop(a) / count(*)) AS a_se,
       if(bool_or(multi), NULL, avg(above)) AS a_above, if(bool_or(multi), NULL, sqrt(var_pop(above) / count(*))) AS a_above_se
FROM mean JOIN (SELECT model_id, step, stage_task FROM models) AS m USING (model_id)
GROUP BY lineage, setting, task_id, model_id, checkpoint;
COMMENT ON VIEW checkpoint_accuracy IS 'Accuracy of every checkpoint of a lineage on the items that all of them answered, raw and above chance.';

-- Grain:  (lineage, setting, task_id).
-- Nulls:  fg where the first accuracy is 0; fg_above where it is within 2 se of chance, or several options are gold.
-- Source: Luo et al., arXiv 2308.08747: mean over ALL stages m >= 1 of (R_0 - R_m)/R_0, in percent; R_0 the first checkpoint.
--         It explodes near chance: fg_above is the same of accuracy above chance.
CREATE VIEW luo_forgetting AS
WITH first AS (FROM checkpoint_accuracy WHERE checkpoint = 1)
SELECT lineage, setting, task_id, f.a AS a_first, f.a_above AS a_above_first, count(*) AS n_stages, 100 * avg(ratio(f.a - c.a, f.a)) AS fg_pct,
       100 * avg(if(f.a_above > 2 * f.a_above_se, ratio(f.a_above - c.a_above, f.a_above), NULL)) AS fg_above_pct
FROM checkpoint_accuracy AS c JOIN first AS f USING (lineage, setting, task_id)
WHERE c.checkpoint > 1 GROUP BY ALL;
COMMENT ON VIEW luo_forgetting IS 'FG of Luo et al. per task: mean relative loss against the first checkpoint over all later ones, raw and above chance.';

-- Grain:  (lineage, setting, map, category): FG is the mean over tasks.
CREATE VIEW luo_forgetting_categories AS
SELECT lineage, setting, map, category, count(*) AS n_tasks, count(fg_above_pct) AS n_tasks_adjusted, avg(fg_pct) AS fg_pct, avg(fg_above_pct) AS fg_above_pct
FROM luo_forgetting JOIN task_categories USING (task_id) GROUP BY ALL;
COMMENT ON VIEW luo_forgetting_categories IS 'FG of Luo et al. by category: unweighted mean over its tasks.';

-- R[i, j]: accuracy after stage i on the task of stage j. A stage ends with the last of the neighbouring checkpoints that have
-- one stage_task; checkpoints without are no stage.
-- Grain:  (lineage, setting, n_stages): the measures after that many stages; the last row is the whole lineage's.
-- Nulls:  one stage only; a value of R is missing; fwt without a baseline, the lineage's first checkpoint before any stage.
-- Source: BWT, FWT: Lopez-Paz and Ranzato 2017 (GEM; its code divides FWT by T, the paper and this by T-1);
--         chaudhry_f: Chaudhry et al. 2018, mean over j < k of max_{l<k} R[l, j] - R[k, j].    Check: test_sequences.py
CREATE VIEW stage_transfer AS
WITH staged AS (
    SELECT lineage, model_id, stage_task, row_number() OVER (PARTITION BY lineage ORDER BY step, model_id) AS i
    FROM (FROM models WHERE lineage IS NOT NULL AND step IS NOT NULL
          QUALIFY stage_task IS DISTINCT FROM lead(stage_task) OVER (PARTITION BY lineage ORDER BY step, model_id))
    WHERE stage_task IS NOT NULL),
r AS (
    SELECT c.lineage, c.setting, x.i, y.i AS j, c.a FROM checkpoint_accuracy AS c
    JOIN staged AS x ON x.lineage = c.lineage AND x.model_id = c.model_id
    JOIN staged AS y ON y.lineage = c.lineage AND y.stage_task = c.task_id),
baseline AS (
    SELECT c.lineage, c.setting, y.i AS j, c.a AS b FROM checkpoint_accuracy AS c
    JOIN staged AS y ON y.lineage = c.lineage AND y.stage_task = c.task_id WHERE c.checkpoint = 1 AND c.stage_task IS NULL),
backward AS (
    SELECT t.lineage, t.setting, t.i AS n_stages, count(o.a) AS n, avg(t.a - o.a) AS bwt
    FROM r AS t JOIN r AS o ON o.lineage = t.lineage AND o.setting = t.setting AND o.i = t.j AND o.j = t.j WHERE t.j < t.i GROUP BY ALL),
drop_from_best AS (
    SELECT t.lineage, t.setting, t.i AS n_stages, t.j, count(o.a) AS n, max(o.a) - any_value(t.a) AS lost
    FROM r AS t JOIN r AS o ON o.lineage = t.lineage AND o.setting = t.setting AND o.j = t.j AND o.i < t.i WHERE t.j < t.i GROUP BY ALL),
chaudhry AS (SELECT lineage, setting, n_stages, count(*) AS n, min(n) AS n_before, avg(lost) AS chaudhry_f FROM drop_from_best GROUP BY lineage, setting, n_stages),
ahead AS (SELECT r.lineage, r.setting, r.j, r.a - b AS gain FROM r LEFT JOIN baseline USING (lineage, setting, j) WHERE r.j = r.i + 1),
forward AS (
    SELECT t.lineage, t.setting, t.n_stages, count(gain) AS n, avg(gain) AS fwt
    FROM (SELECT DISTINCT lineage, setting, i AS n_stages FROM r) AS t JOIN ahead ON ahead.lineage = t.lineage AND ahead.setting = t.setting AND ahead.j <= t.n_stages
    GROUP BY ALL)
SELECT lineage, setting, n_stages, if(b.n = n_stages - 1, bwt, NULL) AS bwt, if(f.n = n_stages - 1, fwt, NULL) AS fwt,
       if(c.n = n_stages - 1 AND n_before = n_stages - 1, chaudhry_f, NULL) AS chaudhry_f
FROM (SELECT DISTINCT lineage, setting, i AS n_stages FROM r) AS t
LEFT JOIN backward AS b USING (lineage, setting, n_stages) LEFT JOIN forward AS f USING (lineage, setting, n_stages)
LEFT JOIN chaudhry AS c USING (lineage, setting, n_stages);
COMMENT ON VIEW stage_transfer IS 'Backward and forward transfer (GEM) and Chaudhry''s forgetting after every stage of a lineage trained task after task.';

CREATE MACRO none_right(n, c, k) AS
    CASE WHEN k = 0 THEN 1e0 WHEN k > n THEN NULL WHEN n - c < k THEN 0e0
         ELSE exp(lgamma(n - c + 1) - lgamma(n - c - k + 1) - lgamma(n + 1) + lgamma(n - k + 1)) END;
COMMENT ON MACRO none_right IS 'Chance that k of n answers, drawn without replacement, hold none of the c right ones; NULL for k > n.';

-- Grain:  (lineage, setting, task_id). k answers drawn from the newest t checkpoints in turn, newest first: the j-th newest gives
--         floor(k/t), one more for the first k mod t; replicates are the answers.
-- Nulls:  fewer than t checkpoints, or fewer replicates than a checkpoint has to give.
-- Source: arXiv 2505.20196, Pass@k|t.    Check: test_sequences.py
CREATE MACRO pass_at(k, t) AS TABLE
WITH item AS (
    SELECT lineage, setting, task_id, n_checkpoints, sample_key, answers
    FROM item_histories QUALIFY n_checkpoints = max(n_checkpoints) OVER (PARTITION BY lineage, setting, task_id)),
drawn AS (
    SELECT lineage, setting, task_id, sample_key, any_value(n_checkpoints) AS n_checkpoints, age, count(*) AS n,
           count(*) FILTER (answers[-age]) AS c, k // t + CAST(age <= k % t AS INT) AS k_age
    FROM item, (SELECT unnest(range(1, t + 1)) AS age) GROUP BY lineage, setting, task_id, sample_key, age),
missed AS (
    SELECT lineage, setting, task_id, sample_key, min(n) AS n,
           if(bool_and(none_right(n, c, k_age) IS NOT NULL) AND min(n_checkpoints) >= t, product(none_right(n, c, k_age)), NULL) AS miss
    FROM drawn GROUP BY lineage, setting, task_id, sample_key)
SELECT lineage, setting, task_id, count(*) AS n_items, min(n) AS n_replicates, if(count(miss) = count(*), 1 - avg(miss), NULL) AS pass
FROM missed GROUP BY lineage, setting, task_id;
COMMENT ON MACRO TABLE pass_at IS 'FROM pass_at(k, t): share of items right in at least one of k answers drawn from the newest t checkpoints of a lineage.';

-- Source: CapTrack, arXiv 2603.06610. Positive is better in every direction; a capability is the mean over its metrics.
CREATE MACRO relative_change_pct(before, after, direction := 'higher', target := 50) AS
    100 * CASE direction
        WHEN 'higher' THEN ratio(after - before, abs(before)) WHEN 'lower' THEN ratio(before - after, abs(before))
        WHEN 'target' THEN ratio(abs(before - target) - abs(after - target), abs(before - target))
        ELSE error('direction is higher, lower or target, not ' || direction) END;
COMMENT ON MACRO relative_change_pct IS 'Relative change in percent, positive is better: direction higher, lower or target (towards 50, or target := x); NULL from 0.';

-- ==== 11. published figures ===========================================================================================

-- Grain:  (paper, table_no, regime, before_model, after_model, metric) with a printed Total.
-- differs: by more than .1 points, the last printed digit.    Check: test_published.py: 149 of 188
CREATE VIEW published_totals AS
SELECT paper, table_no, regime, before_model, after_model, size_b, metric, count(*) FILTER (category <> 'Total') AS n_categories,
       max(value) FILTER (category = 'Total') AS value, avg(value) FILTER (category <> 'Total') AS value_recomputed,
       round(abs(max(value) FILTER (category = 'Total') - value_recomputed), 6) > 0.1 AS value_differs,
       max(ceiling) FILTER (category = 'Total') AS ceiling, avg(ceiling) FILTER (category <> 'Total') AS ceiling_recomputed,
       round(abs(max(ceiling) FILTER (category = 'Total') - ceiling_recomputed), 6) > 0.1 AS ceiling_differs
FROM published_results
GROUP BY paper, table_no, regime, before_model, after_model, size_b, metric HAVING count(*) FILTER (category = 'Total') > 0;
COMMENT ON VIEW published_totals IS 'Printed totals beside the mean of the printed categories, for figures and ceilings.';

-- Grain:  (pair_id, setting, paper, table_no, regime, category, metric): models of one name, whatever the revision.
-- Nulls:  a paper's metric without a counterpart here has no row. Ours is in percent, as theirs, over map paper.
CREATE VIEW published_beside_ours AS
WITH total AS (
    FROM category_metrics WHERE map = 'paper' AND category <> 'Other'
    UNION ALL BY NAME
    SELECT *, 'Total' AS category FROM pair_metrics WHERE map = 'paper'),
ours AS (
    SELECT pair_id, setting, category, n_tasks, n_replicates, split_part(before_id, '@', 1) AS before_model, split_part(after_id, '@', 1) AS after_model,
           unnest([{'metric': 'forgetting', 'ours': f_true, 'ours_sd_seed': f_true_sd_seed, 'ours_ceiling': f_max},
                   {'metric': 'backward_transfer', 'ours': bt_true, 'ours_sd_seed': bt_true_sd_seed, 'ours_ceiling': bt_max}], recursive := TRUE)
    FROM total)
SELECT o.pair_id, o.setting, p.paper, p.table_no, p.regime, p.before_model, p.after_model, p.category, p.metric, p.value, p.std, p.ceiling,
       100 * o.ours AS ours_pct, 100 * o.ours_sd_seed AS ours_pct_sd_seed, 100 * o.ours_ceiling AS ours_ceiling_pct, o.n_tasks, o.n_replicates
FROM published_results AS p
JOIN ours AS o USING (before_model, after_model, category, metric);
COMMENT ON VIEW published_beside_ours IS 'Printed forgetting, backward transfer and ceilings beside ours, where a declared pair has the same model names.';

-- ==== 12. integrity ===================================================================================================
-- Identity, as SQL: what the ids of a catalog must be.

CREATE MACRO run_id_of(model_id, itemset_id, protocol_id, replicate) AS
    CAST(CAST('0x' || sha256(concat_ws(chr(10), model_id, itemset_id, protocol_id, replicate))[:14] AS BIGINT) >> 3 AS BIGINT);
COMMENT ON MACRO run_id_of IS 'First 53 bits of sha256 over the four parts of a run, joined by newlines: exact in JSON and in a double.';
CREATE MACRO itemset_id_of(task_id, keys) AS sha256(task_id || chr(10) || array_to_string(keys, chr(10)))[:16];
COMMENT ON MACRO itemset_id_of IS 'First 16 hex of sha256 over the task_id and the sample_keys in order, joined by newlines.';
CREATE MACRO shown_order(sample_key, replicate, n_options) AS
    list_transform(list_sort(list_transform(range(n_options), lambda i: {h: sha256(concat_ws(chr(10), sample_key, replicate, i)), i: i})), lambda s: s.i);
COMMENT ON MACRO shown_order IS 'Published indices of an item''s options in the order shown, where the protocol''s option_order is shuffled; the same for every model.';

-- Grain:  (problem, detail). Empty in a sound catalog: connect() refuses one that is not, `catalog check` lists it.
CREATE VIEW integrity AS
WITH twice AS (
    SELECT 'models' AS place, model_id AS id FROM models UNION ALL SELECT 'tasks', task_id FROM tasks
    UNION ALL SELECT 'categories', map || ' ' || task_id FROM categories UNION ALL SELECT 'itemsets', itemset_id FROM itemsets
    UNION ALL SELECT 'protocols', protocol_id FROM protocols UNION ALL SELECT 'runs', CAST(run_id AS VARCHAR) FROM runs
    UNION ALL SELECT 'pairs', pair_id FROM pairs UNION ALL SELECT 'pairs of the same models', before_id || ' -> ' || after_id FROM pairs
    UNION ALL SELECT 'samples', itemset_id || ' item ' || item FROM samples
    UNION ALL SELECT 'samples', itemset_id || ' key ' || sample_key FROM samples
    UNION ALL SELECT 'option_scores', 'run ' || run_id || ' item ' || item FROM option_scores
    UNION ALL SELECT 'generations', 'run ' || run_id || ' item ' || item FROM generations
    UNION ALL SELECT 'published_results', concat_ws(', ', paper, table_no, regime, before_model, after_model, category, metric) FROM published_results),
answered AS (  -- one pass over the outcomes for three rules
    SELECT o.run_id, o.item, s.item IS NULL AS lacking,
           o.predicted IS NOT NULL AND s.item IS NOT NULL AND NOT coalesce(o.predicted BETWEEN 0 AND s.n_options - 1, FALSE) AS outside,
           coalesce(s.answer = 'choice' AND o.correct <> (o.predicted = s.gold), FALSE) AS contradicts
    FROM outcomes AS o JOIN runs AS r USING (run_id)
    LEFT JOIN (SELECT itemset_id, item, answer, n_options, TRY_CAST(gold[1] AS SMALLINT) AS gold FROM samples) AS s
        ON s.itemset_id = r.itemset_id AND s.item = o.item
    WHERE lacking OR outside OR contradicts)
SELECT 'more than one row' AS problem, place || ': ' || id AS detail FROM twice GROUP BY place, id HAVING count(*) > 1
UNION ALL SELECT 'more than one row', 'outcomes: run ' || o.run_id || ' item ' || o.item  -- found by bits, not by a group per row
          FROM outcomes AS o SEMI JOIN (
              SELECT run_id, item >> 5 AS block FROM outcomes GROUP BY ALL
              HAVING count(*) <> bit_count(bit_or(CAST(1 AS BIGINT) << (item & 31)))) AS d ON d.run_id = o.run_id AND d.block = o.item >> 5
          GROUP BY o.run_id, o.item HAVING count(*) > 1
UNION ALL SELECT 'run of an unknown model', run_id || ': ' || model_id FROM runs ANTI JOIN models USING (model_id)
UNION ALL SELECT 'run of an unknown itemset', run_id || ': ' || itemset_id FROM runs ANTI JOIN itemsets USING (itemset_id)
UNION ALL SELECT 'run of an unknown protocol', run_id || ': ' || protocol_id FROM runs ANTI JOIN protocols USING (protocol_id)
UNION ALL SELECT 'itemset of an unknown task', itemset_id || ': ' || task_id FROM itemsets ANTI JOIN tasks USING (task_id)
UNION ALL SELECT 'pair of an unknown model', pair_id || ': ' || model_id
          FROM (SELECT pair_id, unnest([before_id, after_id]) AS model_id FROM pairs) ANTI JOIN models USING (model_id)
UNION ALL SELECT 'pair of a model with itself', pair_id FROM pairs WHERE before_id = after_id
UNION ALL SELECT 'outcomes of an unknown run', CAST(run_id AS VARCHAR) FROM (SELECT DISTINCT run_id FROM outcomes) ANTI JOIN runs USING (run_id)
UNION ALL SELECT 'run without outcomes', CAST(run_id AS VARCHAR) FROM runs ANTI JOIN outcomes USING (run_id)
UNION ALL SELECT problem, 'run ' || run_id || ' item ' || item
          FROM (SELECT run_id, item, unnest([if(lacking, 'outcome of an item its itemset lacks', NULL),
                                             if(outside, 'predicted is not one of the options', NULL),
                                             if(contradicts, 'correct contradicts predicted and gold', NULL)]) AS problem FROM answered)
          WHERE problem IS NOT NULL
UNION ALL SELECT 'run_id is not the hash of its parts', CAST(run_id AS VARCHAR) FROM runs
          WHERE run_id <> run_id_of(model_id, itemset_id, protocol_id, replicate)
UNION ALL SELECT 'itemset_id or n_items is not that of its samples', itemset_id
          FROM itemsets LEFT JOIN (SELECT itemset_id, list(sample_key ORDER BY item) AS keys FROM samples GROUP BY itemset_id) USING (itemset_id)
          WHERE keys IS NULL OR itemset_id <> itemset_id_of(task_id, keys) OR n_items <> len(keys)
UNION ALL SELECT 'sample_key is not scheme:hash#occurrence', itemset_id || ' item ' || item FROM samples
          WHERE NOT regexp_full_match(sample_key, '(qog|doc|prompt|src):[0-9a-f]{16,64}#\d+')
UNION ALL SELECT 'choice item with fewer than 2 options', itemset_id || ' item ' || item FROM samples
          WHERE answer <> 'free' AND coalesce(n_options, 0) < 2
UNION ALL SELECT 'free-form item with options', itemset_id || ' item ' || item FROM samples WHERE answer = 'free' AND n_options IS NOT NULL
UNION ALL SELECT 'gold is not one of the options', itemset_id || ' item ' || item FROM samples
          WHERE answer <> 'free' AND (len(gold) = 0 OR (answer = 'choice' AND len(gold) > 1)
                OR NOT list_bool_and(list_transform(gold, lambda g: coalesce(TRY_CAST(g AS INTEGER) BETWEEN 0 AND n_options - 1, FALSE))))
UNION ALL SELECT 'one item with two numbers of options', i.task_id || ' ' || s.sample_key FROM samples AS s JOIN itemsets AS i USING (itemset_id)
          GROUP BY i.task_id, s.sample_key HAVING count(DISTINCT (s.answer, coalesce(s.n_options, 0))) > 1
UNION ALL SELECT 'correct contradicts status', 'run ' || run_id || ' item ' || item FROM outcomes
          WHERE (correct IS NULL) <> (status = 'error') OR (correct AND status IN ('unparsed', 'truncated'))
UNION ALL SELECT 'not as many scores as options', 'run ' || v.run_id || ' item ' || v.item
          FROM option_scores AS v JOIN runs AS r USING (run_id) JOIN samples AS s ON s.itemset_id = r.itemset_id AND s.item = v.item
          WHERE len(v.scores) <> coalesce(s.n_options, 0)
UNION ALL SELECT 'replicates of a protocol that cannot vary', min(r.run_id) || ': ' || p.setting || ' of ' || r.model_id
          FROM runs AS r JOIN protocols AS p USING (protocol_id)
          WHERE p.decoding IN ('scored', 'greedy') AND p.option_order IS DISTINCT FROM 'shuffled'
          GROUP BY r.model_id, r.itemset_id, r.protocol_id, p.setting HAVING count(DISTINCT r.replicate) > 1;
COMMENT ON VIEW integrity IS 'What makes a catalog wrong, one row per fault; empty in a sound one.';

-- Grain:  map, of maps a user added (the paper's sorts whole benchmarks, asked or not): no fault, but perhaps a misspelling.
CREATE VIEW unsorted_maps AS
SELECT map, count(*) AS n_tasks, array_to_string(list(task_id ORDER BY task_id)[:3], ', ') AS examples
FROM categories ANTI JOIN itemsets USING (task_id) WHERE map <> 'paper' GROUP BY map;
COMMENT ON VIEW unsorted_maps IS 'Maps that sort tasks no run was asked: how many, and three of them.';

-- ==== 13. packed =======================================================================================================
-- A large catalog keeps what is costly to compute: the words of every run, the pattern of every item, how item lists overlap,
-- and of the declared pairs the transition counts and item sums. All are filled by the macros that compute them from rows;
-- after it (catalog/pack.py) the views read them instead. Packed catalogs are never changed: rows added later would not be seen.

-- Grain:  model_id.    model_no: the order in which models were packed; what is kept lies in that order, so that the zone
--         maps of two models' rows leave out the rest.
CREATE TABLE packed_models (model_id VARCHAR NOT NULL, model_no INTEGER NOT NULL);
COMMENT ON TABLE packed_models IS 'In which order models were packed; empty unless packed.';

CREATE TABLE packed_strata AS FROM strata LIMIT 0;
COMMENT ON TABLE packed_strata IS 'What strata holds; empty unless packed.';
CREATE TABLE packed_overlap AS FROM itemset_overlap LIMIT 0;
COMMENT ON TABLE packed_overlap IS 'What itemset_overlap holds; empty unless packed.';

-- Grain:  as run_words_of_rows: (run_id, word).
CREATE TABLE packed_words AS SELECT *, CAST(NULL AS INTEGER) AS model_no FROM run_words_of_rows() LIMIT 0;
COMMENT ON TABLE packed_words IS 'The answers of every run, 60 items a row, one bit each; empty unless packed.';

-- Grain:  as item_patterns_of_rows: (series_id, place).
CREATE TABLE packed_item_patterns AS SELECT * REPLACE (CAST(NULL AS INTEGER) AS pattern), CAST(NULL AS INTEGER) AS model_no FROM item_patterns_of_rows() LIMIT 0;
COMMENT ON TABLE packed_item_patterns IS 'What every model answered to every item, as the number of a pattern; empty unless packed.';

-- Grain:  pattern.    fingerprint: what the pattern was called before it got a smaller number.
CREATE TABLE packed_patterns (pattern INTEGER NOT NULL, fingerprint UBIGINT NOT NULL, codes BIGINT[] NOT NULL);
COMMENT ON TABLE packed_patterns IS 'The patterns of answers that occur: replicate * 65536 + code of each; empty unless packed.';

-- Grain:  as transition_counts, kind pair.
CREATE TABLE packed_counts AS FROM transition_counts_of_words() LIMIT 0;
COMMENT ON TABLE packed_counts IS 'Transition counts of the declared pairs; empty unless packed.';

-- Grain:  as item_sums_of_patterns: (before_id, after_id, setting, task_id, answer, n_options).
CREATE TABLE packed_item_sums AS FROM item_sums_of_patterns() LIMIT 0;
COMMENT ON TABLE packed_item_sums IS 'Item sums of the declared pairs; empty unless packed.';

CREATE MACRO packed_words_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT * EXCLUDE (model_no) FROM packed_words
WHERE before_model IS NULL OR model_no IN (SELECT model_no FROM packed_models WHERE model_id IN (before_model, after_model));
COMMENT ON MACRO TABLE packed_words_of IS 'run_words_of, from the packed words.';
CREATE MACRO packed_item_patterns_of(before_model := NULL, after_model := NULL) AS TABLE
SELECT * EXCLUDE (model_no) FROM packed_item_patterns
WHERE before_model IS NULL OR model_no IN (SELECT model_no FROM packed_models WHERE model_id IN (before_model, after_model));
COMMENT ON MACRO TABLE packed_item_patterns_of IS 'item_patterns_of, from the packed patterns.';
CREATE MACRO packed_pattern_codes_of(before_model := NULL, after_model := NULL) AS TABLE SELECT pattern, codes FROM packed_patterns;
COMMENT ON MACRO TABLE packed_pattern_codes_of IS 'pattern_codes_of, from the packed patterns.';

-- Two given models are computed from words and patterns: they need not be declared. No model is called ''.
CREATE MACRO packed_counts_of(before_model := NULL, after_model := NULL, kinds := ['pair', 'cross', 'self', 'consecutive']) AS TABLE
FROM packed_counts WHERE before_model IS NULL AND list_contains(kinds, kind)
UNION ALL
FROM transition_counts_of_words(before_model, after_model, list_filter(kinds, lambda kind: before_model IS NOT NULL OR kind <> 'pair'));
COMMENT ON MACRO TABLE packed_counts_of IS 'transition_counts_of, from the packed counts where all declared pairs are asked.';
CREATE MACRO packed_item_sums_of(before_model := NULL, after_model := NULL) AS TABLE
FROM packed_item_sums WHERE before_model IS NULL
UNION ALL FROM item_sums_of_patterns(coalesce(before_model, ''), coalesce(after_model, ''));
COMMENT ON MACRO TABLE packed_item_sums_of IS 'item_sums_of, from the packed sums where all declared pairs are asked.';

-- ==== 14. what every column means =====================================================================================
-- One meaning per column name, wherever it stands. Not listed, because they follow from a listed name: bt_* is the
-- mirror of f_*; *_lo, *_hi, *_se, *_mde80, *_sd_seed, *_mean, *_var. connect() makes them the columns' comments.

CREATE TABLE glossary (name VARCHAR NOT NULL, meaning VARCHAR NOT NULL);
COMMENT ON TABLE glossary IS 'What every column name means, once; derived names are left out.';
INSERT INTO glossary VALUES
    -- what is stored
    ('model_id',               'org/name@revision, or local/name@12 hex of the weights'' sha256; never a path.'),
    ('family',                 'Models of one family share architecture and data; they are not independent.'),
    ('n_params',               'Number of parameters.'),
    ('kind',                   'Of a model: base, instruct, ...; of a run pair: pair, cross, self, consecutive.'),
    ('parents',                'model_ids it was made from.'),
    ('lineage',                'Name of the training run whose checkpoints belong together.'),
    ('step',                   'Position of a checkpoint in its lineage.'),
    ('stage_task',             'Task trained last at this step.'),
    ('recipe',                 'How the model was made.'),
    ('quantisation',           'Number format of the weights where not the original one.'),
    ('task_id',                'benchmark/subset, without split or sample suffix.'),
    ('benchmark',              'First part of task_id.'),
    ('subset',                 'Second part of task_id.'),
    ('behavioural',            'Asks for behaviour, not knowledge: left out where a base model is in the pair.'),
    ('map',                    'A way to sort tasks into categories; paper is that of arXiv 2510.17776.'),
    ('category',               'Category of the task in the map; Other where the map is silent.'),
    ('examples',               'A few of them.'),
    ('n_wrong',                'Wrong answers counted.'),
    ('gold_second',            'Share of wrong answers in which the gold option has the second highest score.'),
    ('gold_second_expected',   'What gold_second is if the wrong choice says nothing of the gold: 1/(k-1).'),
    ('itemset_id',             'First 16 hex of sha256 over the task_id and the sample_keys in order.'),
    ('source',                 'Where it came from, as given; never a path of a machine.'),
    ('source_revision',        'Revision of the source.'),
    ('split',                  'Split of the source.'),
    ('permutation_seed',       'Seed that shuffled the options before the keys were taken; NULL is the published order.'),
    ('n_items',                'Number of items.'),
    ('item',                   'Position in the itemset: storage only, nothing pairs on it.'),
    ('sample_key',             'scheme:hash#occurrence of an item; two outcomes pair when task_id and sample_key are equal.'),
    ('answer',                 'choice (one gold option), free (text) or multi (several golds).'),
    ('n_options',              'Number of options k; NULL for free-form.'),
    ('gold',                   'Gold option indices from 0, or accepted texts.'),
    ('source_id',              'The source''s own id.'),
    ('protocol_id',            'First 16 hex of sha256 over the protocol without its setting.'),
    ('setting',                'Name under which runs are compared.'),
    ('prompt_style',           'How the question is written.'),
    ('shots',                  'Solved examples before the question.'),
    ('template',               'none, or model: the model''s own chat template.'),
    ('decoding',               'scored (no text generated), greedy or sampled.'),
    ('temperature',            'Sampling temperature.'),
    ('top_p',                  'Nucleus sampling mass.'),
    ('max_new_tokens',         'Most tokens generated per answer.'),
    ('stop',                   'Strings that end an answer.'),
    ('scoring',                'How correctness comes about: sum, per-byte, or extracted from text (free answers: -exact, -numeric).'),
    ('option_order',           'published, or shuffled by sample_key and replicate: shown_order.'),
    ('extraction',             'Version of the rules that read an answer; collect regrade reads it again.'),
    ('dtype',                  'Number format of the computation.'),
    ('details',                'What else the protocol fixes, as JSON: solved examples by the hash of their content ...'),
    ('run_id',                 'First 53 bits of sha256 over model, itemset, protocol, replicate.'),
    ('replicate',              'Number of the repetition; equal numbers pair.'),
    ('series_id',              'Smallest run_id of the runs of one model, itemset and protocol: its replicates.'),
    ('stratum',                'Number of a task, answer kind and number of options in this catalog.'),
    ('place',                  'Number of an item in this catalog, in the order of its sample_key within its stratum.'),
    ('word',                   'Number of a word of 60 items of one stratum: place // 60.'),
    ('first_word',             'Number of the first word of a stratum.'),
    ('first_no',               'The item_no at which the items of an itemset begin.'),
    ('item_no',                'Number of an item of an itemset in this catalog.'),
    ('fingerprint',            'Bitwise xor of the hashes of the codes of a pattern, each + 1.'),
    ('pattern',                'Number of a list of answers: what a model answered to an item in every replicate.'),
    ('codes',                  'Replicate * 65536 + code of each answer: 0 right, 1 not read, 2 wrong with an unknown option, 3 + the wrong option.'),
    ('model_no',               'Place of a model in the order of packing.'),
    ('after_replicate',        'Replicate of the after run.'),
    ('rng_seed',               'Seed of the random numbers; information only.'),
    ('engine',                 'What ran the model.'),
    ('versions',               'Versions of the libraries, as JSON.'),
    ('hardware',               'Device it ran on.'),
    ('chat_template_sha256',   'sha256 of the chat template used.'),
    ('contributor',            'Who ran it, as they wish to be named.'),
    ('collected_at',           'When, UTC.'),
    ('wall_s',                 'Seconds it took.'),
    ('correct',                'Right or wrong; NULL is not measured.'),
    ('predicted',              'Index of the predicted option in published order.'),
    ('status',                 'ok, lenient (read by a lenient rule), unparsed, truncated, error.'),
    ('reason',                 'Rule that read the answer, or why there is no answer or no slope.'),
    ('n_tokens',               'Tokens generated, or scored.'),
    ('scores',                 'Log-probability per option, in nats or nats per byte.'),
    ('text',                   'Generated text.'),
    ('pair_id',                'Name of a declared pair, or before -> after.'),
    ('before_id',              'model_id before post-training.'),
    ('after_id',               'model_id after.'),
    ('regime',                 'Kind of post-training.'),
    ('data_examples',          'Post-training examples.'),
    ('data_tokens',            'Post-training tokens.'),
    ('paper',                  'Where it is printed.'),
    ('table_no',               'Table of the paper.'),
    ('before_model',           'Model before, as printed; the only one where one is named.'),
    ('after_model',            'Model after, as printed.'),
    ('size_b',                 'Parameters in billions, as printed.'),
    ('metric',                 'Name of the metric; as printed where published.'),
    ('value',                  'Figure as printed.'),
    ('std',                    'Its printed deviation.'),
    ('ceiling',                'Printed ceiling: the largest value the metric could have had.'),
    ('unit',                   'Its unit.'),
    ('confidence',             'How surely the figure was read; NULL where nobody stated it.'),
    -- who is compared with whom
    ('base',                   'The model is a base model.'),
    ('before_run',             'run_id before.'),
    ('after_run',              'run_id after.'),
    ('before_itemset',         'Itemset before.'),
    ('after_itemset',          'Itemset after.'),
    ('before_protocol',        'Protocol before.'),
    ('after_protocol',         'Protocol after.'),
    ('n_common',               'Items both itemsets hold.'),
    ('n_before',               'Items of the before itemset.'),
    ('n_after',                'Items of the after itemset.'),
    ('before_correct',         'Right before; NULL not measured.'),
    ('after_correct',          'Right after; NULL not measured.'),
    ('before_predicted',       'Option predicted before.'),
    ('after_predicted',        'Option predicted after.'),
    ('before_status',          'Status before.'),
    ('after_status',           'Status after.'),
    ('parsed',                 'An answer was read: status ok or lenient.'),
    ('transition',             '1->1 kept, 1->0 forgotten, 0->1 gained, 0->0 never; NULL not measured on a side.'),
    -- packed: bits of a word, and sums over items
    ('measured',               'Bits: the item is measured.'),
    ('told',                   'Bits: an option is predicted, and wrong.'),
    ('option_0',               'Bits: one binary digit of the predicted, wrong option.'),
    ('wrong_before',           'Share of replicates wrong before.'),
    ('wrong_after',            'Share of replicates wrong after.'),
    ('blind',                  'Some item is wrong on both sides, read, with an unknown option.'),
    ('blind_x',                'As blind, over all replicates of both models.'),
    ('f_before',               'Sum over items of f times wrong_before.'),
    ('f_after',                'Sum over items of f times wrong_after.'),
    ('wrong_both',             'Sum over items of wrong_before times wrong_after.'),
    -- counts
    ('n',                      'Items measured on both sides.'),
    ('n11',                    'Right before and after.'),
    ('n10',                    'Right before, wrong after: forgotten.'),
    ('n01',                    'Wrong before, right after: gained.'),
    ('n00',                    'Wrong before and after.'),
    ('d',                      'Wrong on both sides, both read, with different options.'),
    ('n_blind',                'Wrong on both sides, both read, but an option is not known.'),
    ('n10_unparsed',           'Forgotten, with an answer that could not be read.'),
    ('n01_unparsed',           'Gained, where the answer before could not be read.'),
    ('n00_to_unparsed',        'Wrong on both sides, read before, not after.'),
    ('n00_from_unparsed',      'Wrong on both sides, read after, not before.'),
    ('n_unpaired_before',      'Items measured before only.'),
    ('n_unpaired_after',       'Items measured after only.'),
    ('n_unpaired',             'Items measured on one side only.'),
    ('n_exch',                 'Items with 3 or more options and known predictions.'),
    ('n_exch_x',               'Items in f_exch_x.'),
    ('n_replicates',           'Replicates averaged.'),
    ('n_replicated',           'Items both models answered at least twice.'),
    ('n_tasks',                'Tasks averaged.'),
    ('n_tasks_adjusted',       'Tasks with chance-adjusted metrics (no multi-gold items).'),
    ('n_tasks_exch',           'Tasks with f_exch.'),
    ('n_tasks_x',              'Tasks with f_exch_x.'),
    ('n_categories',           'Categories averaged.'),
    ('n10_pooled',             'n10 summed over tasks, replicate 0.'),
    ('n01_pooled',             'n01 summed over tasks, replicate 0.'),
    ('set_size',               'Replicates in a set.'),
    ('n_sets',                 'Sets of replicates.'),
    -- metrics, raw
    ('a_pre',                  'Accuracy before.'),
    ('a_post',                 'Accuracy after.'),
    ('net',                    'a_post - a_pre = bt - f.'),
    ('f',                      'Forgetting F = n10/n (also NFR), raw.'),
    ('bt',                     'Backward transfer BT = n01/n (also PFR), raw.'),
    ('flips',                  'F + BT.'),
    ('all_flips',              '(n10 + n01 + d)/n; choice items with known options only.'),
    ('f_cond',                 'n10/(n11 + n10): share of what was right that is lost.'),
    ('btc',                    '1 - f_cond: backward trust compatibility.'),
    ('bec',                    'n00/(n00 + n10): backward error compatibility.'),
    ('f_relative',             'Relative NFR: F/(a_pre (1 - a_post)), 1 where errors are independent.'),
    ('f_conventional',         'max(a_pre - a_post, 0): what comparing accuracies shows of F.'),
    ('f_unparsed',             'Part of F whose answer after could not be read (format).'),
    ('f_wrong',                'Part of F with a wrong answer after.'),
    -- metrics, beyond luck
    ('f_lucky',                'Flips by luck in arXiv 2510.17776: (1-a_pre)(1-a_post)/(k-1); assumes independent errors.'),
    ('f_true',                 'max(F - f_lucky, 0): chance-adjusted forgetting of arXiv 2510.17776; interval is that of the unclipped value.'),
    ('f_true_unclipped',       'F - f_lucky; averages without the bias of clipping.'),
    ('f_max',                  'Accuracy above chance: ceiling of F_true in the paper (not strict).'),
    ('f_latent',               'C (p10 - p00/(k-1)): knowledge lost if guesses are uniform and independent over time.'),
    ('f_sticky',               'C p10: upper bracket, guesses repeat.'),
    ('f_exch',                 'Flips that exchangeable guessing does not explain; k >= 3; too high under partial knowledge. f_answer + f_format.'),
    ('f_answer',               'Part of f_exch lost to a wrong option.'),
    ('f_format',               'Part of f_exch lost to an unreadable answer.'),
    ('f_known',                'f_exch for k >= 3, f_latent for k = 2 or unknown options, p10 for free-form, weighted by items; never clipped.'),
    ('f_known_max',            'As f_known, with f_sticky in place of f_latent: upper end of the bracket.'),
    ('method',                 'Of f_known: exchangeable, latent, free-form or mixed.'),
    ('f_exch_x',               'f_exch over every pair of replicates minus the mean of both models'' f_exch against themselves: 0 in expectation when nothing changed.'),
    ('f_self',                 'F of a model against its own replicates; in pair views the mean of both models.'),
    ('f_exch_self',            'f_exch of a model against its own replicates.'),
    ('f_sym',                  'F over every pair of replicates (f: those of one number) minus F_self.'),
    ('v',                      'F_sym + BT_sym: mean squared change of the probability of being right; 0 if nothing changed.'),
    ('f_consistent',           'Forgotten share of the items with the same transition in every replicate of a set.'),
    ('sparse',                 'n < 30 or n10 + n01 + d < 5: shown, not to be ranked or tested.'),
    ('mcnemar_p',              'Exact McNemar p of net change.'),
    ('mcnemar_mid_p',          'Mid-p McNemar of net change.'),
    ('mcnemar_p_pooled',       'Exact McNemar p over the pooled counts of replicate 0.'),
    ('mcnemar_mid_p_pooled',   'Mid-p McNemar over the pooled counts of replicate 0.'),
    -- many tasks, and what could have been seen
    ('mcnemar_q',              'Benjamini-Hochberg q of mcnemar_p over test_family.'),
    ('mcnemar_mid_q',          'Benjamini-Hochberg q of mcnemar_mid_p over test_family.'),
    ('n_tests',                'Tests in the family.'),
    ('test_family',            'What the q values are taken over.'),
    ('level',                  'task, category or pair.'),
    -- scale
    ('scaled_by',              'What x is: n_params, data_examples or data_tokens.'),
    ('x',                      'What a trend is taken over, not yet its logarithm.'),
    ('y',                      'The metric of one pair: a fraction in this catalog, percent where published.'),
    ('n_sizes',                'Distinct x.'),
    ('n_families',             'Distinct families.'),
    ('y_se',                   'Its standard error over items.'),
    ('slope_se',               'Standard error of slope, from the scatter of the pairs about the line.'),
    ('slope_weighted_se',      'Standard error of slope_weighted, from errors over items and between_var.'),
    ('slope',                  'Change of y per tenfold x, least squares, every pair alike.'),
    ('intercept',              'y of the fitted line at x = 1.'),
    ('r2',                     'Share of the variance of y on that line.'),
    ('slope_weighted',         'The slope with weights 1/(y_se^2 + between_var).'),
    ('between_var',            'Variance between models beyond errors over items, a moment estimate.'),
    ('slope_family_se',        'Standard error of slope with families as clusters; from 3 families.'),
    ('slope_weighted_family_se', 'The same of slope_weighted.'),
    -- sequences of checkpoints
    ('checkpoint',             'Place of a checkpoint among those of its lineage that were run, from 1.'),
    ('n_checkpoints',          'Checkpoints of the lineage that were run.'),
    ('checkpoints',            'Their model_ids, in order.'),
    ('steps',                  'Their steps, in order.'),
    ('answers',                'Right or wrong at each of them, in order.'),
    ('learned',                'Right at one of them at least.'),
    ('first_learned',          'Step at which it was first right.'),
    ('n_forgotten',            'Forgetting events: right at a checkpoint, wrong at the next.'),
    ('history',                'never learned, unforgettable (learned, no event) or forgotten.'),
    ('a_first',                'Accuracy of the first checkpoint.'),
    ('a_final',                'Accuracy of the last checkpoint.'),
    ('ever',                   'Share right at one checkpoint at least.'),
    ('tfs',                    'Temporal forgetting score: ever - a_final.'),
    ('lost_of_final_errors',   'Of the items wrong at the end, the share that was right before: tfs/(1 - a_final).'),
    ('events_per_item',        'Forgetting events, mean over items.'),
    ('unforgettable',          'Share learned and never forgotten.'),
    ('never_learned',          'Share wrong at every checkpoint.'),
    ('tfs_luck',               'tfs of independent guesses where nothing changed.'),
    ('lost_of_final_errors_luck', 'lost_of_final_errors of independent guesses where nothing changed.'),
    ('events_per_item_luck',   'events_per_item of independent guesses where nothing changed.'),
    ('a',                      'Accuracy of one checkpoint.'),
    ('a_above',                'Accuracy above chance: right less wrong/(k-1), unclipped.'),
    ('a_above_first',          'a_above of the first checkpoint.'),
    ('n_stages',               'Stages of training so far; in luo_forgetting the checkpoints after the first.'),
    ('fg_pct',                 'FG of Luo et al.: mean relative loss of accuracy against the first checkpoint.'),
    ('fg_above_pct',           'The same of accuracy above chance.'),
    ('bwt',                    'GEM backward transfer: mean change on earlier tasks since they were trained; negative is forgetting.'),
    ('fwt',                    'GEM forward transfer: mean accuracy on a task just before its stage, over the untrained baseline.'),
    ('chaudhry_f',             'Mean drop on earlier tasks from their best earlier accuracy.'),
    -- published
    ('position',               'Place in the paper''s order.'),
    ('n_pairs',                'Pairs of models.'),
    ('n_published',            'Published figures.'),
    ('value_recomputed',       'Mean of the printed categories.'),
    ('value_differs',          'The printed total is more than .1 points off that mean.'),
    ('ceiling_recomputed',     'Mean of the printed ceilings of the categories.'),
    ('ceiling_differs',        'The printed total ceiling is more than .1 points off that mean.'),
    ('ours_pct',               'The same metric of this catalog, in percent.'),
    ('ours_pct_sd_seed',       'Its sample standard deviation over replicates.'),
    ('ours_ceiling_pct',       'Its ceiling here, in percent.'),
    -- about the catalog itself
    ('catalog',                'Folder or data set on the Hub, as given.'),
    ('revision',               'Commit of the data set on the Hub.'),
    ('problem',                'Rule that is broken.'),
    ('detail',                 'Where.'),
    ('name',                   'Column name.'),
    ('meaning',                'What a column of this name holds.'),
    ('table_name',             'Table or view.'),
    ('column_name',            'Column.'),
    ('data_type',              'Type.');

-- Grain:  (table_name, column_name).
CREATE VIEW columns_explained AS
WITH ending (ending, words) AS (
    VALUES ('_lo', 'Lower end of the 95% interval of '), ('_hi', 'Upper end of the 95% interval of '), ('_se', 'Standard error over items of '),
           ('_mde80', 'Smallest true value found with 80% power at 5%: 2.8 standard errors of '),
           ('_sum', 'Sum over items of the scores of '), ('_squares', 'Sum over items of the squared scores of '),
           ('_sd_seed', 'Sample standard deviation over replicates of '), ('_mean', 'Mean over sets of '), ('_var', 'Sample variance over sets of ')),
split_name AS (
    SELECT c.table_name, c.column_name, c.data_type, coalesce(e.words, '') AS words,
           if(e.ending IS NULL, regexp_replace(c.column_name, '^option_\d+$', 'option_0'), left(c.column_name, len(c.column_name) - len(e.ending))) AS stem
    FROM duckdb_columns() AS c LEFT JOIN ending AS e ON ends_with(c.column_name, e.ending) WHERE NOT c.internal)
SELECT s.table_name, s.column_name, s.data_type,
       CASE WHEN own.meaning IS NOT NULL THEN own.meaning
            WHEN words <> '' AND (g.meaning IS NOT NULL OR f.meaning IS NOT NULL) THEN words || stem || '.'
            WHEN g.meaning IS NOT NULL THEN g.meaning
            WHEN f.meaning IS NOT NULL THEN 'Mirror of ' || f.name || ', gained instead of forgotten.' END AS meaning
FROM split_name AS s
LEFT JOIN glossary AS own ON own.name = s.column_name
LEFT JOIN glossary AS g ON g.name = s.stem
LEFT JOIN glossary AS f ON s.stem LIKE 'bt!_%' ESCAPE '!' AND f.name = 'f' || s.stem[3:];
COMMENT ON VIEW columns_explained IS 'Every column of every table and view with its type and meaning.';
