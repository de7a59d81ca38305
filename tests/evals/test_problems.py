import pytest

from unmask.errors import DataError
from unmask.evals.problems import final_answer, load_problems
from unmask.train.sources.gym import GymSource


def test_gym_problems_are_held_out_and_judge_answers():
    problems = load_problems("gym:gsm_symbolic", 5)
    gym = GymSource("gym:gsm_symbolic", evaluation=True)
    trained = {GymSource("gym:gsm_symbolic").entry(i)["question"] for i in range(50)}
    for index, problem in enumerate(problems):
        right = gym.entry(index)["answer"]
        assert problem.is_correct(f"so it is\n#### {right}")
        assert not problem.is_correct(f"#### {int(right) + 1}")
        assert not problem.is_correct("")
        assert problem.messages[0]["content"] not in trained


def test_rows_of_a_file_are_judged_by_their_reference(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"prompt": "2+2?", "response": "adding: #### 4"}\n')
    (problem,) = load_problems(str(path), 10)
    assert problem.messages == [{"role": "user", "content": "2+2?"}]
    assert problem.is_correct("#### 4")
    assert not problem.is_correct("#### 5")


def test_rows_without_a_reference_are_an_error(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"text": "no question here"}\n')
    with pytest.raises(DataError, match="no reference answer"):
        load_problems(str(path), 1)


def test_the_last_mark_counts():
    assert final_answer("#### 1 no, #### 2 ") == "2"
