/**
 * claim_v1 (rule R6): moves ready jobs from waiting to leased in order of (rank, seq). It leaves out a job with a clock
 * that is due, which belongs to a duty, and skips rows that another claim holds.
 *
 * One statement finds the places of an offer's jobs, for one route or many: the first jobs of each route, up to the
 * number that their gates let pass (claim-gates.sql.ts), merged in order. Offers of routes with lanes find their jobs
 * by lanes (claim-lanes.sql.ts). Everything after that is the same for both, in sets, in the order of the places.
 *
 * A claim moves the row (delete and insert) instead of updating it: 10.8 instead of 15.0 us per job at 100 jobs. The
 * planner is forced to use the index, because on a newly filled table without statistics it would sort all waiting
 * jobs.
 *
 * The answer has a list per field, because rows of single jobs cost the driver more than the query.
 */
import { eventCodes } from "../../../model/events/event-kind.ts";
import { stateCodes } from "../../../model/job/job-state.ts";
import { columnOf, jobFields, leasedFields } from "../../../store/job-fields.ts";
import type { JobField, JobFieldName } from "../../../store/job-fields.ts";
import { fencesPerEpoch } from "../../../store/rules/lease.ts";
import { uniqueHolds } from "../../../store/rules/unique-holds.ts";
import { typeOf, wholeInput } from "../functions/columns.ts";
import type { Expressions } from "../functions/columns.ts";
import { postgresPaths } from "../paths.ts";
import { fieldEnd, itemEnd, nullItem } from "../functions/packed-values.ts";
import { byIndex, nextClock, setCommit, timeNow } from "../functions/call.sql.ts";
import {
  cutByGates,
  declareGates,
  hasGates,
  leaveUnknown,
  shareAllGates,
  lockGates,
  lookAtGates,
  shutGates,
  takeTokens,
} from "../limits/claim-gates.sql.ts";
import { declareLanes, hasLanes, leaveLanes, lockLanes, pickLanes } from "../groups/claim-lanes.sql.ts";
import { lease, leasedValues } from "./lease.sql.ts";
import { brief, foldEvery, emitSet } from "../feed/emit.sql.ts";
import { inLines, sql } from "../../../store/sql.ts";

const { ready, running } = stateCodes;
const [byLanes] = postgresPaths.claim;

/**
 * The lists of a batch: the fields that a claim hands out, except the time of the claim, which is that of the batch.
 */
export const listedFields = leasedFields.filter(
  (name): name is Exclude<typeof name, "claimedAt"> => name !== "claimedAt",
);
const values: Expressions = leasedValues;

/** Fields that usually equal another one: their list is then left out. */
export const sameAs = { dueAt: "createdAt" } as const satisfies Partial<
  Record<(typeof listedFields)[number], (typeof listedFields)[number]>
>;

/**
 * A field of all rows as one list. A list of equal numbers has one item. A list without values, or equal to the list of
 * another field, is null. Seqs are never equal, so they are not compared.
 */
function listOf(name: JobFieldName, input: string): string {
  const { isNullable }: JobField = jobFields[name];
  if (name === "input") return `string_agg(${input}, ${itemEnd})`;
  if (name in sameAs) {
    const other = columnOf(sameAs[name as keyof typeof sameAs]);
    return sql`CASE WHEN NOT bool_and(${columnOf(name)} = ${other}) THEN array_agg(${columnOf(name)}) END`;
  }
  const value = values[name] ?? columnOf(name);
  if (typeOf(name) === "text") {
    return isNullable === true
      ? sql`CASE WHEN count(${value}) > 0 THEN string_agg(coalesce(${value}, ${nullItem}), ${itemEnd}) END`
      : `string_agg(${value}, ${itemEnd})`;
  }
  if (name === "seq") return "array_agg(seq)";
  return isNullable === true ? sql`CASE WHEN count(${value}) > 0 THEN array_agg(${value}) END` : brief(value);
}

const listName = (name: JobFieldName): string => `l_${columnOf(name)}`;
const listDeclared = listedFields.map(
  (name) => `${listName(name)} ${typeOf(name) === "text" ? "text" : `${typeOf(name)}[]`};`,
);

/** Jobs at the head of a route that may be claimed; rows that another claim holds are skipped. */
const isClaimable = sql`state = ${ready} AND lane_key IS NULL AND (timer_at IS NULL OR timer_at > now)`;

/**
 * The first jobs of all routes in one order. With several routes the order is certain up to the last job that was read
 * of a route that may have more. v_got: how many jobs were looked for with certainty.
 */
const pick = sql`
  v_got := v_left;
  v_batch := coalesce(v_batch,
    CASE array_length(v_offer, 1) WHEN 1 THEN v_left ELSE ceil(2.0 * v_left / array_length(v_offer, 1)) + 8 END);
  SELECT array_agg(ctid), array_agg(route), array_agg(rank), array_agg(seq)
  INTO v_places, v_seen, v_ranks, v_order FROM (
    SELECT r.route, h.* FROM unnest(v_offer, v_most) r(route, most) CROSS JOIN LATERAL (
      SELECT ctid, rank, seq FROM @waiting
      WHERE route = r.route AND rank >= v_floor
        AND ${isClaimable}
      ORDER BY rank, seq LIMIT least(v_batch, r.most + 1) FOR UPDATE SKIP LOCKED) h
    ORDER BY rank, seq) c;
  IF array_length(v_offer, 1) > 1 THEN
    SELECT least(v_left, min(at)) INTO v_got FROM (
      SELECT at, row_number() OVER (PARTITION BY route ORDER BY at) AS number
      FROM unnest(v_seen) WITH ORDINALITY s(route, at)) s
    WHERE number = v_batch;
    v_places := v_places[:v_got]; v_seen := v_seen[:v_got]; v_order := v_order[:v_got];
  END IF;
  v_lowest[v_i] := least(v_lowest[v_i], v_ranks[1]);`;

const wanted = inLines([
  ...new Set([...listedFields.map(columnOf), "counts_attempt", "holds", "unique_key"]),
]);
const listNames = inLines(listedFields.map(listName));

/** The rows at v_places as lists, and how many of them have their input in payload. */
const listRows = (rows: string, input: string): string => sql`
  SELECT count(*) FILTER (WHERE input IS NULL),
    ${listedFields.map((name) => listOf(name, input)).join(",\n")},
    array_agg(unique_key) FILTER (WHERE holds = ${uniqueHolds.started}),
    array_agg(seq) FILTER (WHERE holds = ${uniqueHolds.started})
  INTO v_away,
    ${listNames},
    v_keys, v_freed
  FROM (
    SELECT ${wanted}
    FROM ${rows}) h;`;

/**
 * Reads the rows in the order of the places, each by a lookup of its own: the settings of claim_v1 allow no other plan.
 */
const listInOrder = (input: string): string =>
  listRows("unnest(v_places) p(place) JOIN @waiting w ON w.ctid = p.place", input);
/** Reads the rows in the order of the table, in half the time. That is usually the order of the places. */
const listAsTheyLie = (input: string): string => listRows("@waiting WHERE ctid = ANY (v_places)", input);

/** The input if it is in the row. */
const smallInput = sql`coalesce(input, ${nullItem})`;

/**
 * Cuts the picked rows at v_bytes of inputs; used only if inputs are large or many. It reads the sizes without the
 * inputs, then makes the lists with the inputs of the remaining rows. A row whose input is gone is unreadable: it is
 * moved away before anything is leased, and the claim looks again.
 */
const cutByBytes = sql`
  SELECT array_agg(place) FILTER (WHERE before < v_bytes), array_agg(id) FILTER (WHERE bytes IS NULL)
  INTO v_places, v_bad FROM (
    SELECT place, id, bytes,
      coalesce(sum(bytes) OVER (ORDER BY o ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM (
      SELECT p.place, p.o, w.id,
        octet_length(${wholeInput("w")}) AS bytes
      FROM unnest(v_places) WITH ORDINALITY p(place, o) JOIN @waiting w ON w.ctid = p.place) w) b;
  IF v_bad IS NOT NULL THEN
    PERFORM @keep_unreadable_v1(now, NULL, v_bad);
    CONTINUE;
  END IF;
  ${listInOrder(wholeInput("h"))}`;

/** Emits the leased jobs, and frees keys that were held until the start. */
const emitClaimed = sql`
  v_ids := replace(l_id, ${itemEnd}, ${fieldEnd});
  ${emitSet({
    kind: `${eventCodes.claimed}`,
    from: `${ready}`,
    to: `${running}`,
    extra: "''",
    differs: { first: "v_begun", extra: "'n1'" },
  })}
  v_all := @append_events_v1(v_all, v_events);
  IF v_keys IS NOT NULL THEN
    DELETE FROM @uniq u USING unnest(v_keys, v_freed) f(key, seq) WHERE u.key = f.key AND u.seq = f.seq;
  END IF;`;

/**
 * A batch of the answer. No value holds the character between its fields, and null is empty. v_key_gates: the gates of
 * keys of jobs with lanes.
 */
const batch = inLines(
  ["now", "v_i", "v_key_gates", ...listedFields.map(listName)].map((field) => `${fieldEnd}, ${field}`),
);

export const claimSql = sql`
-- Enters this run of the server: answers its epoch, which grows if the row in alive is gone. The table is unlogged: a
-- crash, a failover and a restore empty it, and with any of them acknowledged writes or claims may be lost.
CREATE FUNCTION @epoch_v1() RETURNS int8 LANGUAGE plpgsql AS $$
DECLARE v_epoch int8;
BEGIN
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  PERFORM pg_advisory_xact_lock(hashtextextended('@epoch', 0));
  SELECT epoch INTO v_epoch FROM @alive;
  IF FOUND THEN RETURN v_epoch; END IF;
  -- An epoch must never be given twice, so this commit waits for the disk.
  PERFORM set_config('synchronous_commit', 'on', true);
  UPDATE @meta SET value = (value::int8 + 1)::text WHERE name = 'epoch' RETURNING value::int8 INTO v_epoch;
  INSERT INTO @alive VALUES (v_epoch);
  RETURN v_epoch;
END $$;

-- p_ends[i] is the last index of offer i in p_routes. p_floors[i]: rows of lower rank are not read (floors.ts says
-- why); null reads all. Answers one text, because a table of columns costs a small call more than its rows: time, how
-- long finding took in us, the next clock if asked for, whether jobs were left because the inputs reached p_bytes, when
-- the first gate that refused a job opens, for each offer the lowest rank that was read; then for each batch its time,
-- the number of its offer, gates of keys and its lists.
CREATE FUNCTION @claim_v1(p_now int8, p_commit text, p_owner text, p_lease int8, p_routes int8[], p_ends int4[],
  p_maxes int4[], p_starts int4[], p_floors int8[], p_clock bool, p_bytes int8) RETURNS text LANGUAGE plpgsql
  ${byIndex} AS $$
#variable_conflict use_column
DECLARE
  now int8 := ${timeNow};
  -- The jobs of a batch, a list for each field.
  ${inLines(listDeclared, " ")}
  v_ends int8; v_fence int8; v_from int4 := 1; v_offer int8[]; v_left int4; v_got int4; v_batch int4;
  v_places tid[]; v_count int4; v_ids text; v_all text; v_events text; v_keys text[]; v_freed int8[]; v_floor int8;
  v_began timestamptz; v_pick int8 := 0; v_clock int8; v_feed int8; v_answer text := '';
  v_bytes int8 := coalesce(p_bytes, 9223372036854775807); v_more bool := false; v_bad text[];
  v_starts int4; v_begun int4; v_away int4; v_ranks int8[]; v_seen int8[]; v_order int8[]; v_moved int8;
  ${declareGates}
  ${declareLanes}
BEGIN
  ${setCommit}
  ${shareAllGates}
  SELECT epoch * ${fencesPerEpoch}, ${hasGates},
    ${hasLanes}
  INTO v_fence, v_has_gates, v_has_lanes FROM @alive;
  IF NOT FOUND THEN
    v_fence := @epoch_v1() * ${fencesPerEpoch};
    v_has_gates := ${hasGates};
    v_has_lanes := ${hasLanes};
  END IF;
  ${lockLanes}
  ${lockGates}
  -- All items are set at the start, because Postgres writes a list with unset first items with a lower bound.
  v_lowest := array_fill(NULL::int8, ARRAY[coalesce(array_length(p_ends, 1), 0)]);
  FOR v_i IN 1..coalesce(array_length(p_ends, 1), 0) LOOP
    v_offer := p_routes[v_from:p_ends[v_i]];
    v_from := p_ends[v_i] + 1;
    v_left := p_maxes[v_i];
    v_starts := p_starts[v_i];
    v_floor := coalesce(p_floors[v_i], -9223372036854775808);
    ${leaveUnknown}
    v_batch := NULL;
    IF v_laned IS NOT NULL THEN
      v_is_laned := ${byLanes.takes.inStore};
      v_key_gates := NULL;
      v_look := 0;
      v_deep := NULL;
      CONTINUE WHEN v_is_laned AND v_open_gates IS NULL;
    END IF;
    WHILE v_left > 0 LOOP
      v_began := clock_timestamp();
      IF v_is_laned THEN
        ${pickLanes}
        IF v_pick_lanes.bad IS NOT NULL THEN
          PERFORM @keep_unreadable_v1(now, NULL, v_pick_lanes.bad);
          CONTINUE;
        END IF;
      ELSE
        IF v_gates IS NOT NULL THEN
          ${lookAtGates}
        END IF;
        ${pick}
        ${cutByGates}
      END IF;
      IF NOT v_is_laned THEN
        ${listAsTheyLie(smallInput)}
      END IF;
      IF v_is_laned OR l_seq <> v_order THEN
        ${listInOrder(smallInput)}
      END IF;
      IF v_is_laned THEN
        IF v_away > 0 THEN
          ${listInOrder(wholeInput("h"))}
        END IF;
      ELSIF v_away > 0 OR octet_length(l_input) - array_length(v_places, 1) >= v_bytes THEN
        ${cutByBytes}
      END IF;
      v_count := array_length(v_places, 1);
      IF NOT v_is_laned THEN
        v_pick := v_pick + extract(epoch FROM clock_timestamp() - v_began) * 1000000;
      END IF;
      EXIT WHEN v_count IS NULL AND v_cut IS NULL;
      IF v_count > 0 THEN
        -- The batch may have jobs that were submitted while this call ran. With the time of its beginning they would be
        -- claimed before they were due.
        now := greatest(now, ${timeNow});
        v_ends := now + p_lease;
        v_begun := least(v_starts, v_count);
        v_starts := v_starts - v_begun;
        ${lease}
        DELETE FROM @waiting WHERE ctid = ANY (v_places);
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        IF v_moved <> v_count THEN
          RAISE EXCEPTION 'millrace: a claim took % jobs and removed %', v_count, v_moved USING ERRCODE = 'MR004';
        END IF;
        ${emitClaimed}
        ${takeTokens}
        v_answer := concat(v_answer,
          ${batch});
        v_bytes := v_bytes - (octet_length(l_input) - v_count + 1);
        EXIT WHEN v_bytes <= 0;
      END IF;
      IF v_cut IS NULL THEN
        v_left := v_left - greatest(v_got, 1);
      ELSE
        v_left := v_left - coalesce(v_count, 0);
        ${shutGates}
      END IF;
    END LOOP;
    IF v_bytes <= 0 THEN
      -- On routes that a gate has shut, the jobs after the last one that was taken have not been refused yet.
      v_more := EXISTS (
          SELECT 1 FROM @waiting
          WHERE route = ANY (v_offer || p_routes[v_from:])
            AND ${isClaimable})
        OR (v_gates IS NOT NULL AND EXISTS (
          SELECT 1 FROM @waiting
          WHERE route = ANY (v_all_routes) AND ${isClaimable}
            AND ARRAY[rank, seq] > ARRAY[v_ranks[v_count], l_seq[v_count]]))
        OR v_more OR (v_has_lanes AND EXISTS (SELECT 1 FROM @lane WHERE route = ANY (p_routes[v_from:])));
      EXIT;
    END IF;
  END LOOP;
  ${leaveLanes}
  IF v_all IS NOT NULL THEN
    INSERT INTO @feed (at, body) VALUES (now, v_all) RETURNING id INTO v_feed;
    IF v_feed % ${foldEvery} = 0 THEN PERFORM @fold_v1(); END IF;
  END IF;
  IF p_clock THEN
    SELECT ${nextClock} INTO v_clock;
  END IF;
  RETURN concat(now, ${fieldEnd}, v_pick, ${fieldEnd}, v_clock, ${fieldEnd}, v_more, ${fieldEnd}, v_opens,
    ${fieldEnd}, v_lowest, v_answer);
END $$;
`;
