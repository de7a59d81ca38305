import pytest

from unmask.errors import ConfigError, DataError
from unmask.train.source import open_source
from unmask.train.sources.gym import EVALUATION_OFFSET, MAX_SEED, SEED_STRIDE, GymSource


def write(tmp_path, text):
    path = tmp_path / "data.jsonl"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"text": "a"}\nnot json\n', r"data\.jsonl:2 is not JSON"),
        ('{"text": "a"}\n\n{"txt": "b"}\n', r"data\.jsonl:3 has no known field"),
        ('{"messages": []}\n', r"data\.jsonl:1 has no known field"),
        ('{"messages": [{"role": "user"}]}\n', r"data\.jsonl:1 has no known field"),
        ('{"prompt": "a"}\n', r"data\.jsonl:1 has no known field"),
        ("[1]\n", r"data\.jsonl:1 has no known field"),
        ('{"text": ""}\n', r"data\.jsonl:1 has no known field"),
        ('{"messages": [{"role": "user", "content": "a"}]}\n', "has no assistant turn"),
        ('{"messages": [{"role": "assistant", "content": "a"}]}\n', "has no assistant turn"),
        ("\n", "has no rows"),
    ],
)
def test_broken_rows_name_file_and_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        open_source(write(tmp_path, text), seed=0)


def test_missing_file_and_unknown_data(tmp_path):
    with pytest.raises(DataError, match="cannot read"):
        open_source(str(tmp_path / "nowhere.jsonl"), seed=0)
    with pytest.raises(DataError, match=r"use a file\.jsonl, .* or gym:NAME"):
        open_source("wikitext", seed=0)


def test_every_epoch_has_all_rows_in_its_own_order(data):
    source = open_source(str(data), seed=0)
    epochs = [[source.row(e * 7 + i).where for i in range(7)] for e in range(2)]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    again = open_source(str(data), seed=0)
    assert [again.row(i).where for i in range(7)] == epochs[0]
    assert source.row(3).where == epochs[0][3]  # any index, at any time


def test_gym_training_and_evaluation_seeds_never_overlap():
    assert SEED_STRIDE * MAX_SEED <= EVALUATION_OFFSET
    train = GymSource("gym:gsm_symbolic")
    held_out = GymSource("gym:gsm_symbolic", evaluation=True)
    assert train.row(0) == GymSource("gym:gsm_symbolic").row(0)
    assert train.entry(0)["question"] != held_out.entry(0)["question"]


def test_gym_rows_hold_the_worked_solution_and_score_it():
    gym = GymSource("gym:gsm_symbolic")
    answer = gym.row(0).messages[1]["content"]
    assert answer.endswith(f"#### {gym.entry(0)['answer']}")
    assert gym.score(gym.entry(0)["answer"], 0) == 1.0
    assert gym.score("no idea", 0) < 1.0


def test_unknown_gym_task_names_the_closest():
    with pytest.raises(ConfigError, match="did you mean 'gsm_symbolic'"):
        open_source("gym:gsm_symbolik", seed=0)


def test_line_separators_inside_a_string_do_not_end_a_row(tmp_path):
    path = write(tmp_path, '\ufeff{"text": "a\u2028b"}\n{"text": "c"}\n')
    assert [row.text for row in open_source(path, seed=0).rows] == ["a\u2028b", "c"]


@pytest.mark.parametrize("seed", [-1, MAX_SEED])
def test_seeds_that_would_reach_into_evaluation_are_refused(seed):
    with pytest.raises(ConfigError, match="gym seed"):
        GymSource("gym:gsm_symbolic", seed=seed)


def test_sources_with_commas_take_turns(tmp_path, data):
    mixed = open_source(f"gym:number_filtering, {data}", seed=3)
    gym, own = GymSource("gym:number_filtering", seed=3), open_source(str(data), seed=3)
    assert [mixed.row(i) for i in range(4)] == [gym.row(0), own.row(0), gym.row(1), own.row(1)]
    assert gym.fingerprint in mixed.fingerprint
    assert own.fingerprint in mixed.fingerprint
    with pytest.raises(ConfigError, match="gym task"):
        open_source("gym:number_filtering,gym:nonsense", seed=0)
    odd = tmp_path / "a,b.jsonl"
    odd.write_text('{"text": "a"}\n')
    assert open_source(str(odd), seed=0).size == 1


def test_gym_tasks_take_settings():
    few = GymSource("gym:word_sequence_reversal?min_words=2&max_words=2")
    assert all(few.row(n).messages[1]["content"].count(",") == 1 for n in range(5))
    plain = GymSource("gym:word_sequence_reversal")
    assert any(plain.row(n).messages[1]["content"].count(",") > 1 for n in range(5))
    for query, message in (("min_word=2", "unexpected keyword"), ("min_words", "key=value"),
                           ("min_words=9&max_words=2", "max_words")):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            GymSource(f"gym:word_sequence_reversal?{query}")


@pytest.fixture
def parquet(tmp_path):
    import pyarrow
    from pyarrow.parquet import write_table

    path = tmp_path / "rows.parquet"
    table = {"question": [f"q{n}" for n in range(9)], "answer": [f"a{n}" for n in range(9)]}
    write_table(pyarrow.table(table), path)
    return f"{path}?prompt=question&response=answer"


@pytest.mark.parametrize("more", ["", "&streaming=true"])
def test_parquet_rows_come_once_an_epoch_and_again_from_anywhere(parquet, more):
    source = open_source(parquet + more, seed=0)
    said = [source.row(index).messages[0]["content"] for index in range(18)]
    assert sorted(said[:9]) == sorted(said[9:]) == [f"q{n}" for n in range(9)]
    assert said[:9] != said[9:]
    assert source.row(3).messages[1]["content"] == said[3].replace("q", "a")
    again = open_source(parquet + more, seed=0)
    assert [again.row(index).messages[0]["content"] for index in (7, 7, 2, 11)] == [
        said[7], said[7], said[2], said[11]]  # fmt: skip
    assert again.fingerprint == source.fingerprint
    other = open_source(parquet + more, seed=1)
    assert [other.row(index).messages[0]["content"] for index in range(9)] != said[:9]


@pytest.mark.parametrize(
    ("change", "message"),
    [(lambda p: p.replace("question", "qestion"), "has no qestion, but question, answer"),
     (lambda p: p.partition("?")[0], "no known field"),
     (lambda p: p + "&spilt=test", "did you mean 'split'"),
     (lambda p: p + "&split=test", "cannot open"),
     (lambda p: p.replace("rows", "nowhere"), "cannot open")],
)  # fmt: skip
def test_parquet_that_cannot_be_read_is_named(parquet, change, message):
    with pytest.raises((ConfigError, DataError), match=message):
        open_source(change(parquet), seed=0).row(0)


def test_weights_are_rows_at_a_turn(data, parquet):
    mixed = open_source(f"{data}*2, {parquet}", seed=0)
    one, other = open_source(str(data), seed=0), open_source(parquet, seed=0)
    wanted = [one.row(0), one.row(1), other.row(0), one.row(2), one.row(3), other.row(1)]
    got = [mixed.row(index) for index in range(6)]
    assert [row.messages or row.text for row in got] == [row.messages or row.text for row in wanted]
    assert mixed.name != open_source(f"{data}, {parquet}", seed=0).name
