"""`meridian bench` from end to end: small runs on Meridian, a real mongod and PostgreSQL.

The suites check every answer themselves and end at a wrong one; here is checked that they run
through on all three, and that their reports hold what they promise.
"""

import json
import subprocess
from pathlib import Path

import pytest
from harness.servers import MERIDIAN

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TARGETS = ["--target", "meridian", "--target", "mongod", "--target", "postgres"]
RUN_SECONDS_MAX = 600


def bench(*arguments):
    return subprocess.run(
        [str(MERIDIAN), "bench", *map(str, arguments)], capture_output=True, text=True, timeout=RUN_SECONDS_MAX
    )


class Run:
    """One finished run: what it printed and wrote."""

    def __init__(self, directory, suite, *arguments):
        self.directory = directory
        files = {"json": directory / f"{suite}.json", "html": directory / f"{suite}.html"}
        written = [text for kind, path in files.items() for text in (f"--{kind}", path)]
        result = bench(suite, *TARGETS, *arguments, *written)
        assert result.returncode == 0, result.stderr[-4000:]
        self.table = result.stdout
        self.report = json.loads(files["json"].read_text(encoding="utf-8"))
        self.page = files["html"].read_text(encoding="utf-8")
        self.columns = {target["name"]: target for target in self.report["targets"]}

    def samples(self, column, group, name):
        """The samples of one row; nothing when the column lacks it."""
        rows = self.columns[column]["measures"]
        return next((row["samples"] for row in rows if (row["group"], row["name"]) == (group, name)), None)

    def series(self, column, name):
        return next(series["points"] for series in self.columns[column]["series"] if series["name"] == name)

    def check_common(self):
        assert self.table.count("Where meridian loses") == 1
        assert self.page.startswith("<!doctype html>") and self.page.rstrip().endswith("</html>")
        assert "http:" not in self.page and "https:" not in self.page and "<script" not in self.page
        for name in self.columns:
            assert name in self.table and name in self.page
            assert min(self.samples(name, "Storage", "data directory (du)")) > 0


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("weather"), "weather", "--events", 20_000, "--runs", 2, "--skip-ageing")


def test_weather_runs_on_all_three(weather):
    weather.check_common()
    assert list(weather.columns) == ["meridian", "mongod", "postgres"]
    for column in weather.columns.values():
        assert column["answers_checked"] >= 20


DOCUMENTS = 60_000
ALONE = "Part 1: inserts alone"
ALONE_NO_JOURNAL = "Part 1: inserts alone, no journal"
WITH_QUERIES = "Parts 2 and 3: inserts with range queries"


@pytest.fixture(scope="module")
def indexing(tmp_path_factory):
    return Run(
        tmp_path_factory.mktemp("indexing"), "indexing",
        "--docs", DOCUMENTS, "--runs", 2, "--query-seconds", 0.05, "--journal", "on,off",
    )


def test_indexing_has_a_column_for_each_index_or_says_why_not(indexing):
    indexing.check_common()
    expected = [f"{server} {kind}" for server in ("meridian", "mongod", "postgres") for kind in ("plain", "covering")]
    assert [name for name in indexing.columns if name != "meridian clustering"] == expected
    refused = [remark for remark in indexing.report["remarks"] if remark.startswith("meridian clustering is left out")]
    assert ("meridian clustering" in indexing.columns) != bool(refused)
    assert all(remark in indexing.table for remark in refused)


def test_indexing_counts_every_index_and_the_page_on_each_load(indexing):
    for name, column in indexing.columns.items():
        loads = 3 if name.endswith("plain") else 1
        assert column["answers_checked"] == 6 * loads, name


def test_indexing_measures_inserts_with_and_without_journal(indexing):
    for server in ("meridian", "mongod", "postgres"):
        for group in (ALONE, ALONE_NO_JOURNAL):
            assert indexing.samples(f"{server} plain", group, "exit rate (last window)")[0] > 0
            assert indexing.samples(f"{server} plain", group, "longest wait of an insert")[0] > 0
            assert indexing.samples(f"{server} covering", group, "whole run") is None
            assert indexing.samples(f"{server} plain", group, "range query during the load") is None


def test_indexing_draws_the_rate_over_the_documents(indexing):
    for name in indexing.columns:
        points = indexing.series(name, f"Insert rate, {WITH_QUERIES.lower()}")
        assert [place for place, _ in points] == [DOCUMENTS / 20 * window for window in range(1, 21)]
        assert all(rate > 0 for _, rate in points)
    assert indexing.page.count("<polyline") >= 3 * len(indexing.columns) // 2


def test_indexing_asks_while_it_inserts(indexing):
    for name in indexing.columns:
        times = indexing.samples(name, WITH_QUERIES, "range query during the load")
        points = indexing.series(name, "Range query during the load")
        assert times and times == [time for _, time in points], name
        places = [place for place, _ in points]
        assert places == sorted(places) and places[-1] <= DOCUMENTS
        assert len(indexing.samples(name, WITH_QUERIES, "range query after the load")) == 2


TRIPS = 30_000
SAMPLED = ("week", "February", "entire", "medallion")


@pytest.fixture(scope="module")
def taxi(tmp_path_factory):
    # Few enough are wanted that week, February and everything must be sampled.
    return Run(
        tmp_path_factory.mktemp("taxi"), "taxi", "--trips", TRIPS, "--limit", 300, "--runs", 2, "--cold-runs", 1,
    )


def test_taxi_has_a_column_for_each_layout(taxi):
    taxi.check_common()
    assert list(taxi.columns) == [
        "meridian A", "mongod A", "mongod B", "mongod C", "postgres A", "postgres B", "postgres C",
    ]


def test_taxi_counts_and_samples_are_checked_on_each_layout(taxi):
    for name, column in taxi.columns.items():
        assert column["answers_checked"] == 5 + len(SAMPLED), name


def test_taxi_samples_are_random_ones(taxi):
    # mongod draws from a whole collection by walking its B-tree at random, which favours some pages.
    for name, column in taxi.columns.items():
        uneven = [row["name"] for row in column["measures"] if "NOT a random sample" in row.get("note", "")]
        assert set(uneven) <= ({"entire, warm"} if name == "mongod A" else set()), name


def test_taxi_is_measured_warm_and_cold(taxi):
    for name in taxi.columns:
        for question in SAMPLED:
            assert len(taxi.samples(name, "Queries", f"{question}, warm")) == 2
            assert len(taxi.samples(name, "Queries", f"{question}, cold")) == 1
        load, index, both = (
            taxi.samples(name, "Load", row)[0] for row in ("load", "index build", "load + indexes")
        )
        assert both == pytest.approx(load + index)


def test_taxi_prints_each_published_system(taxi):
    header = next(line for line in taxi.table.splitlines() if line.startswith("Queries") and "M2A" in line)
    assert header.split()[1:] == ["M2A", "M2B", "M2C", "M3C", "PgC", "PyC", "M2D", "M3D", "PgD", "PyD"]


# Synthetic trips in the schema of the city's yellow taxis of 2023, written by the tests of the reader
# (crates/bench/src/suites/taxi/records/tests.rs).
RECORDS = Path(__file__).parent / "yellow_tripdata.parquet"


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return Run(
        tmp_path_factory.mktemp("records"), "taxi",
        "--parquet", RECORDS, "--limit", 40, "--runs", 1, "--cold-runs", 1,
    )


def test_taxi_runs_on_published_records(records):
    records.check_common()
    assert len(records.columns) == 7
    for name, column in records.columns.items():
        assert column["answers_checked"] == 5 + len(SAMPLED), name
        for question in SAMPLED:
            assert records.samples(name, "Queries", f"{question}, warm"), (name, question)
    parameters = dict(records.report["parameters"])
    assert parameters["trips"] == "400"
    assert parameters["asked for"] == (
        "week 2023-02-06 to 2023-02-12, February 2023, first half 2023-01-01 to 2023-02-14, medallion 9Y64"
    )


def test_taxi_says_what_published_records_lack(records):
    for words in (
        "the city's records in yellow_tripdata.parquet", "medallions are not in the files: they were drawn by the seed",
        "not in the files, and left out: hack_license, pickup_longitude, pickup_latitude",
    ):
        assert any(words in remark for remark in records.report["remarks"]), words
        assert words in records.table


ENTITIES = 2000
CASES = ("query", "creation", "creation and update")
SETTINGS = ("none", "compound")


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    return Run(
        tmp_path_factory.mktemp("entities"), "entities",
        "--entities", f"1000,{ENTITIES}", "--seconds", 0.2, "--clients", 2, "--indexes", "none,compound",
    )


def test_entities_measures_each_case_under_each_setting(entities):
    entities.check_common()
    assert list(entities.columns) == ["meridian", "mongod", "postgres"]
    for name in entities.columns:
        for case in CASES:
            for setting in SETTINGS:
                row = f"{case}, {setting}"
                assert max(entities.samples(name, "Transactions, 2k entities", row)) > 0
                p50, p98 = (
                    entities.samples(name, "Latency, 2k entities", f"{row}, {percentile}")[0]
                    for percentile in ("p50", "p98")
                )
                assert 0 < p50 <= p98
                points = entities.series(name, f"Transactions a second by size: {row}")
                assert [size for size, _ in points] == [1000, ENTITIES]


def test_entities_draws_transactions_over_sizes(entities):
    assert entities.page.count("<polyline") == len(entities.columns) * len(CASES) * len(SETTINGS)


def test_entities_are_counted_and_looked_at_after_each_case(entities):
    for name, column in entities.columns.items():
        # For each size and setting: the queries, two counts after either case that writes, one updated entity.
        assert column["answers_checked"] >= 2 * len(SETTINGS) * 6, name


def test_entities_reports_what_each_setting_costs_on_disk(entities):
    for name in entities.columns:
        index_mb, data_mb, share = (
            entities.samples(name, "Storage, 2k entities", f"{row}, compound")[0]
            for row in ("indexes", "data", "share of the database")
        )
        assert index_mb > 0 and share == pytest.approx(index_mb / (index_mb + data_mb)), name


RESTAURANTS = ("--scale", 0.003, "--step-seconds", 3, "--warm-seconds", 0)
COLUMNS = [
    "meridian clustering", "meridian plain", "meridian compound",
    "mongod plain", "mongod compound", "postgres plain", "postgres compound",
]
BEST_LEVEL = "Ramp, best level"


@pytest.fixture(scope="module")
def restaurants(tmp_path_factory):
    directory = tmp_path_factory.mktemp("restaurants")
    return Run(directory, "restaurants", *RESTAURANTS, "--workers", "1,3", "--logs", directory / "logs")


def test_restaurants_has_a_column_for_each_setting_of_indexes_and_checks_its_answers(restaurants):
    restaurants.check_common()
    assert list(restaurants.columns) == COLUMNS
    for name, column in restaurants.columns.items():
        assert column["answers_checked"] == 60, name


def test_restaurants_measures_each_number_of_workers(restaurants):
    for name in COLUMNS:
        for group in ("1 worker", "3 workers"):
            figure = {row["name"]: row["samples"][0] for row in restaurants.columns[name]["measures"] if row["group"] == group}
            rates = [figure[f"requests/s, {which}"] for which in ("least second", "mean", "greatest second")]
            assert 0 < rates[0] and rates == sorted(rates), name
            assert figure["requests/s, 95 % confidence, from"] <= rates[1] <= figure["requests/s, 95 % confidence, to"]
            assert 0 < figure["latency, p50"] <= figure["latency, p98"], name
            assert all(figure[f"latency, p50, {kind}"] > 0 for kind in ("nearest ten", "with an equality", "next page"))
            assert figure["server processor a request"] > 0 and figure["client processor a request, µs"] > 0
        # A closed loop: workers divided by the latency is the rate, but for what the client does in between.
        assert rates[1] == pytest.approx(3000 / figure["latency, mean"], rel=0.5), name


def test_restaurants_draws_throughput_and_latency_over_the_workers(restaurants):
    plots = (
        "Requests a second over workers", "Mean latency over workers", "98th percentile of the latency over workers",
    )
    for name in COLUMNS:
        for plot in plots:
            places = [place for series in restaurants.columns[name]["series"] if series["name"] == plot
                      for place, _ in series["points"]]
            assert places == [1, 3], (name, plot)
    assert all(plot in restaurants.page for plot in plots)


def test_restaurants_keeps_a_compact_log_of_every_request(restaurants):
    for name in COLUMNS:
        start = name.replace(" ", "-")
        logs = sorted(restaurants.directory.glob(f"logs/{start}-3-run-1.*.log"))
        assert len(logs) == 2, name
        assert all(log.read_bytes().startswith(b"MRR1") for log in logs)
        requests = 3 * restaurants.samples(name, "3 workers", "requests/s, mean")[0]
        assert sum(log.stat().st_size for log in logs) < 20 * requests + 1000, name


def test_restaurants_asks_with_hundreds_of_workers(tmp_path):
    run = Run(tmp_path, "restaurants", *RESTAURANTS, "--index", "plain", "--workers", 400, "--clients", 3)
    assert len(run.columns) == 3
    for name in run.columns:
        assert run.samples(name, "400 workers", "requests/s, mean")[0] > 0, name
        assert run.samples(name, "400 workers", "latency, p98")[0] > 0, name


def test_restaurants_ramps_until_there_are_enough_workers(tmp_path):
    run = Run(
        tmp_path, "restaurants", *RESTAURANTS, "--index", "plain", "--step-workers", 2, "--workers-max", 3, "--runs", 2,
    )
    for name in run.columns:
        assert run.samples(name, BEST_LEVEL, "workers")[0] in (2, 3)
        assert run.samples(name, BEST_LEVEL, "workers when the ramp ended") == [3]
        assert [place for place, _ in run.series(name, "Requests a second over workers")] == [2, 3]
    published = next(line for line in run.table.splitlines() if line.startswith("requests/s, mean"))
    assert published.split()[-3:] == ["7,003", "1,543", "1,602"]


LOOKUP = "Lookup: trips with their medallions"
WINDOW = "Window: averages over the hour before each reading"
GROUP = "Group: orders without an index"
TEXT = "Text: short texts by their words"
QUESTIONS = {
    LOOKUP: ["every trip with its medallion", "trips and seconds of each fleet"],
    WINDOW: [
        f"{what}, {how}"
        for what in ("every average", "highest average of each") for how in ("without an index", "along an index")
    ],
    GROUP: ["by country (60 groups)", "by customer (many groups)", "by country and month (720 groups)"],
    TEXT: [
        "texts with a rare word", "any of three words, counted", "two words together, counted",
        "best 20 of any of three words",
    ],
}


@pytest.fixture(scope="module")
def queries(tmp_path_factory):
    return Run(tmp_path_factory.mktemp("queries"), "queries", "--scale", 0.002, "--runs", 2)


def refusal_of_texts(run, column):
    return next((remark for remark in run.report["remarks"] if remark.startswith(f"{column}: texts are left out")), None)


def test_queries_checks_every_answer_on_all_three(queries):
    queries.check_common()
    assert list(queries.columns) == ["meridian", "mongod", "postgres"]
    for name, column in queries.columns.items():
        asked = [part for part in QUESTIONS if part != TEXT or not refusal_of_texts(queries, name)]
        assert column["answers_checked"] == sum(len(QUESTIONS[part]) for part in asked), name
        for part in asked:
            for question in QUESTIONS[part]:
                assert len(queries.samples(name, part, question)) == 2, (name, question)
                assert queries.samples(name, "Server's processor time a question", question)[0] >= 0


def test_queries_shows_who_refuses_texts(queries):
    for name in queries.columns:
        refusal = refusal_of_texts(queries, name)
        assert refusal is None or name == "meridian"
        assert refusal is None or refusal in queries.table
        assert (queries.samples(name, TEXT, QUESTIONS[TEXT][0]) is None) == bool(refusal), name


def test_queries_runs_the_parts_that_are_named(tmp_path):
    run = Run(tmp_path, "queries", "--scale", 0.001, "--runs", 1, "--part", "group,lookup")
    for name in run.columns:
        groups = [row["group"] for row in run.columns[name]["measures"]]
        assert groups.index(GROUP) < groups.index(LOOKUP)
        assert WINDOW not in groups and TEXT not in groups


READINGS = [
    "last reading of each sensor", "one sensor's readings of a day", "hourly averages of a day in an area of the map",
    "six hours downsampled to hours, each sensor", "highest temperature of an hour", "readings of a day, counted",
]
LAYOUTS = [
    "meridian time series", "meridian plain", "mongod time series", "mongod plain", "postgres BRIN", "postgres partitioned",
]


def test_timeseries_checks_every_answer_in_every_layout(tmp_path):
    run = Run(tmp_path, "timeseries", "--scale", 0.002, "--runs", 2)
    run.check_common()
    assert list(run.columns) == LAYOUTS
    for name, column in run.columns.items():
        assert column["answers_checked"] == len(READINGS), name
        for question in READINGS:
            assert len(run.samples(name, "Questions", question)) == 2, (name, question)
    bytes_of = [run.samples(name, "Storage", "data")[0] for name in LAYOUTS[:2]]
    assert bytes_of[0] < bytes_of[1], bytes_of


def test_timeseries_runs_the_layouts_that_are_named(tmp_path):
    run = Run(tmp_path, "timeseries", "--scale", 0.002, "--runs", 1, "--layout", "plain,partitioned")
    assert list(run.columns) == ["meridian plain", "mongod plain", "postgres partitioned"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["timeseries", "--scale", "20"], "a number from"),
        (["taxi", "--parquet", "none.parquet"], "none.parquet"),
        (["taxi", "--parquet", __file__], "test_suites.py: not a Parquet file that can be read"),
        (["taxi", "--layout", "D"], "invalid value 'D'"),
        (["entities", "--indexes", "all"], "invalid value 'all'"),
        (["entities", "--seconds", "0"], "a number of seconds"),

        (["queries", "--scale", "20"], "a number from 0.0005 to 10"),
        (["queries", "--part", "joins"], "invalid value 'joins'"),
        (["restaurants", "--scale", "0"], "a number from 0.0005 to 10"),
        (["restaurants", "--split", "1,2"], "three whole numbers"),
        (["restaurants", "--workers", "8", "--workers-max", "20"], "cannot be used with"),
        (["restaurants", "--index", "clustering", "--target", "postgres", "--scale", "0.001"], "no target has the indexes"),
        (["indexing", "--part", "4"], "4 is not in 1..=3"),
        (["indexing", "--query-seconds", "0"], "a number of seconds"),
        (["indexing", "--target", "oracle"], "unknown target"),
    ],
)
def test_what_is_not_possible_is_refused_by_name(arguments, words):
    result = bench(*arguments)
    assert result.returncode != 0
    assert words in result.stderr
