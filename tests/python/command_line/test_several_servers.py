"""The commands for operators on clusters and behind sentinels."""

from __future__ import annotations

from servers.patience import PATIENCE, eventually

from .test_commands import run
from .test_operating import limiter_at, told


def test_every_node_of_a_cluster_is_asked(start_cluster):
    cluster = start_cluster(masters=3)
    url = f"{cluster.url()}?timeout={PATIENCE}"
    limiter = limiter_at(url)
    for number in range(30):
        limiter.hit(f"user:{number}")
    assert told(0, "top", url)["looked_at"] == 30
    assert told(0, "show", url, "--policy", "login", "user:7")["records"][0]["charged"] == 1
    assert told(0, "lock", url, "--policy", "login", "user:7", "9")["status"] == "ok"
    assert len(told(0, "locked", url)["locked"]) == 1
    answer = told(0, "doctor", url)
    assert {each["check"] for each in answer["findings"]} >= {"cluster", "hash tags", "vectors"}
    assert told(0, "top", url)["looked_at"] == 30


def test_what_the_other_nodes_of_a_cluster_have_is_shown_while_one_is_down(start_cluster):
    cluster = start_cluster(masters=3)
    url = f"{cluster.url()}?timeout={PATIENCE}"
    limiter = limiter_at(url)
    names = [f"user:{number}" for number in range(30)]
    for name in names:
        limiter.hit(name)
        limiter.lock(name, 600)
    down = cluster.masters[0]
    on_others = {name for name in names if cluster.owner_of(cluster.slot_of(f"ol1:login:{name}")) is not down}
    assert 0 < len(on_others) < 30
    tagged = {
        policy: cluster.owner_of(cluster.slot_of(f"{{ol1:{policy}}}:a")) is down
        for policy in ("login", "api", "upload", "mail")
    }
    assert set(tagged.values()) == {True, False}
    down.kill()
    lost = f"127.0.0.1:{down.port}"
    eventually(lambda: all(node.state() == "ok" for node in cluster.masters[1:]))

    for name in names:
        answer = told(0 if name in on_others else 2, "show", url, "--policy", "login", name)
        assert answer["status"] == ("locked" if name in on_others else "unreachable")
    for command, *options in (["top", "-n", "50"], ["locked"]):
        answer = told(2, command, url, *options)
        assert (answer["status"], answer["unreachable"]) == ("unreachable", [lost])
        assert {row["identifier"] for row in answer[command]} == on_others
        assert (answer["looked_at"], answer["is_complete"]) == (len(on_others), False)
        done = run(command, url, *options)
        assert (done.returncode, f"\n{len(on_others)} keys were looked at." in done.stdout) == (2, True)
        assert done.stderr.startswith(f"unreachable: what is kept there is missing: {lost} (")
        assert done.stderr.count("\n") == 1
    answer = told(2, "watch", url, "--every", "0.1", "--count", "1")
    (sample,) = answer["samples"]
    assert (answer["unreachable"], sample["unreachable"]) == ([lost], [lost])
    assert [row["identifiers"] for row in sample["policies"]] == [len(on_others)]
    assert sample["calls"] >= 0
    assert run("watch", url, "--every", "0.1", "--count", "1").stderr.startswith(f"unreachable: {lost}\n")
    reset = ["reset", url, "--policy", "login", "--all"]
    message = f"everybody begins anew in login, except those whose counts are at {lost} ("
    assert told(2, *reset)["message"].startswith(message)
    assert [row["identifier"] for row in told(2, "top", url)["top"]] == []
    limiter.hit(min(on_others))
    assert run(*reset).stderr.startswith(f"unreachable: {message}")
    assert [row["identifier"] for row in told(2, "top", url)["top"]] == []
    for policy, is_lost in tagged.items():  # all of a policy is on one node
        if not is_lost:
            limiter_at(f"{url}&hash_tag=policy", name=policy).hit("a")
        answer = told(2 * is_lost, "reset", f"{url}&hash_tag=policy", "--policy", policy, "--all")
        assert answer["message"].startswith(
            "not everybody" if is_lost else f"Everybody begins anew in {policy}"
        )
    for node in cluster.masters[1:]:
        node.kill()
    assert told(2, "top", url)["status"] == "unreachable"
    assert told(2, *reset)["message"].startswith("not everybody begins anew in login: cannot connect to")


def test_a_cluster_that_serves_no_slot_says_which_node_is_down(start_cluster):
    cluster = start_cluster(masters=3, full_coverage=True)
    url = f"{cluster.url()}?timeout={PATIENCE}"
    limiter = limiter_at(url)
    names = [f"user:{number}" for number in range(30)]
    for name in names:
        limiter.hit(name)
    (name, *_) = [
        each for each in names if cluster.owner_of(cluster.slot_of(f"ol1:login:{each}")) is cluster.masters[2]
    ]
    cluster.masters[0].kill()
    eventually(lambda: all(node.state() == "fail" for node in cluster.masters[1:]))
    quick = f"{cluster.url()}?timeout=0.5"
    for command in (["top"], ["show", "--policy", "login", name], ["reset", "--policy", "login", "--all"]):
        done = run(command[0], quick, *command[1:])
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("unreachable: ")
        assert f"127.0.0.1:{cluster.masters[0].port}" in done.stderr
