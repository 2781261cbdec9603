"""Children inherit everything, save what would harm them."""

import pytest

from rlguide.environ import bypassing, inherited


def test_everything_else_is_inherited_as_it_is():
    environment = {"PATH": "/bin", "EMPTY": "", "HF_TOKEN": "hf_abcdefgh", "WANDB_API_KEY": " odd\n"}

    assert inherited(environment).items() >= environment.items()


@pytest.mark.parametrize("name", ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "WANDB_API_KEY", "hf_token"])
@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_a_blank_secret_is_not_passed_on(name: str, blank: str):
    assert name not in inherited({name: blank})


def test_this_machine_is_never_behind_a_proxy():
    found = inherited({"HTTP_PROXY": "http://proxy.example:3128"})

    assert found["NO_PROXY"] == found["no_proxy"] == "127.0.0.1,localhost,::1"
    assert found["HTTP_PROXY"] == "http://proxy.example:3128"


def test_what_the_user_excludes_stays_excluded_in_both_spellings():
    found = inherited({"NO_PROXY": "corp.example, 10.0.0.0/8", "no_proxy": "localhost,other.example"})

    assert found["NO_PROXY"] == found["no_proxy"]
    assert found["no_proxy"] == "localhost,other.example,corp.example,10.0.0.0/8,127.0.0.1,::1"


def test_wandb_copies_no_output_unless_the_user_wants_it():
    assert inherited({})["WANDB_CONSOLE"] == "off"
    assert inherited({"WANDB_CONSOLE": "wrap"})["WANDB_CONSOLE"] == "wrap"


@pytest.mark.parametrize("name", ["WORLD_SIZE", "LOCAL_RANK", "PMI_SIZE", "MASTER_ADDR", "PYTHONOPTIMIZE"])
def test_what_is_started_is_no_rank_of_the_job_in_which_it_is_started(name: str):
    assert name not in inherited({name: "2"})


def test_hosts_are_added_once():
    assert bypassing("a", environment={"NO_PROXY": "a,a"})["NO_PROXY"] == "a"
