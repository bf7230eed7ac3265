"""A writer process for test_concurrency: `python -m tests.stores.writer <number> <rounds>` prints what it achieved."""

import json
import random
import sys

import django


def main(number: int, rounds: int) -> None:
    django.setup()
    from apps.objects.store import DjangoStore
    from controlplane.apimachinery.meta import Ref
    from controlplane.engine.decision import Decision, Event, Put
    from tests.builders.bare import binding, template
    from tests.stores.grounds import PLACER, USER, controllers

    store = DjangoStore(controllers=controllers())
    chance = random.Random(number)
    shared = [Ref("ConfigMap", "shop", f"shared{one}") for one in range(4)]
    raised = claimed = 0
    for round_ in range(rounds):
        made = [binding(f"w{number}-{round_}-{one}", "member1") for one in range(chance.randint(1, 5))]
        reported = (Event(made[0], "Made", "made by a writer"),)
        store.apply([(None, Decision(changes=(Put(one, None),), events=reported)) for one in made], by=USER)
        found = store.get(chance.sample(shared, 2))
        decisions = []
        for old in found.values():
            count = str(int(old.metadata.labels["count"]) + 1)
            change = Put(old.with_meta(labels={"count": count}), old, exact=True)
            decisions.append((None, Decision(changes=(change,))))
        raised += sum(not one.lost for one in store.apply(decisions, by=USER))
        store.mark("placer", [template(f"x{chance.randint(0, 20)}").ref for _ in range(5)])
        claims = store.claim("placer", shard=0, shards=1, limit=10, lease_seconds=30).claims
        claimed += len(claims)
        if chance.random() < 0.5:
            store.apply([(one, Decision()) for one in claims], by=PLACER)
        else:
            store.release(claims)
    print(json.dumps({"raised": raised, "claimed": claimed}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
