"""Deliberate breaks of what chained bolts need. See `mutants`, which reads this list."""

CHAIN_MUTANTS = r"""
bolts of two phases are chained
    topology.graph.chained: (upstream.id in self.late_bolts) == (spec.id in self.late_bolts) -> True
bolts with other numbers of tasks are chained
    topology.graph.chained: upstream.parallelism == spec.parallelism -> True
a bolt is chained by any grouping
    topology.graph.chained: {each.grouping.name for each in spec.inputs} <= _LOCAL -> True
a bolt is chained to one of several sources
    topology.graph.chained: len(spec.sources) == 1 -> True
tuples for a chained bolt go to another task than the emitting task's own
    streams.routing._ChainedRouter.route: each == index -> each == 0
a task that fails tells tasks of a chained bolt that it does not feed
    engine.plan.wiring.behind: [tasks[index] for _, index in found[component]] if edge.chained else tasks -> tasks
a blob for a later stage gets a partition that the next stage does not have
    engine.plan.wiring.next_partition: stage <= home[0] + 1 -> True
a task takes the blobs of another task of its partition and level
    engine.task.bolt_task._run: (envelope.level, envelope.destination) == place -> envelope.level == place[0]
a task works under the name of another task of its partition
    engine.task.bolt_task.steps: begin(task) -> pass
the tasks of a partition have one attempt id
    engine.task.bolt_task.run_bolt_tasks: [uuid.uuid4().hex for _ in tasks] -> [uuid.uuid4().hex] * len(tasks)
"""
