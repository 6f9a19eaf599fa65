"""Storm's configuration keys that are accepted as they are and have no effect here, each with the reason.

So that a `storm.yaml`, or a topology's own configuration, can be used unchanged. The reasons are the table in
`docs/configuration.md`, which a test compares with this file.
"""

_BY_REASON: dict[str, str] = {
    "Spark decides which process runs what, and how large its memory is": """
        topology.workers topology.tasks topology.max.task.parallelism topology.priority topology.isolate.machines
        topology.scheduler.strategy topology.scheduler.favored.nodes topology.scheduler.unfavored.nodes
        topology.spread.components topology.ras.constraints topology.ras.constraint.max.state.search
        topology.ras.constraint.max.time.secs topology.ras.one.component.per.worker
        topology.ras.one.executor.per.worker topology.ras.order.executors.by.proximity.needs
        topology.component.cpu.pcore.percent topology.component.resources.map
        topology.component.resources.offheap.memory.mb topology.component.resources.onheap.memory.mb
        topology.acker.cpu.pcore.percent topology.acker.resources.offheap.memory.mb
        topology.acker.resources.onheap.memory.mb topology.metrics.consumer.cpu.pcore.percent
        topology.metrics.consumer.resources.offheap.memory.mb topology.metrics.consumer.resources.onheap.memory.mb
        topology.worker.max.heap.size.mb topology.worker.shared.thread.pool.size topology.worker.timeout.secs
        topology.localityaware.higher.bound topology.localityaware.lower.bound topology.disable.loadaware
        topology.disable.loadaware.messaging
    """,
    "Spark starts the worker processes, and ships the job's code": """
        topology.classpath topology.classpath.beginning topology.environment topology.worker.childopts
        topology.worker.gc.childopts topology.worker.logwriter.childopts topology.blobstore.map topology.version
        topology.min.replication.count topology.max.replication.wait.time.sec
        storm.topology.classpath.beginning.enabled storm.topology.submission.notifier.plugin.class
    """,
    "tuples travel in blobs through Spark's shuffle: there are no queues between tasks": """
        topology.executor.receive.buffer.size topology.executor.send.buffer.size topology.executor.overflow.limit
        topology.transfer.buffer.size topology.transfer.batch.size topology.producer.batch.size
        topology.batch.flush.interval.millis topology.worker.receiver.thread.count topology.receiver.buffer.size
        topology.bolts.outgoing.overflow.buffer.enable topology.disruptor.batch.size
        topology.disruptor.batch.timeout.millis topology.disruptor.wait.timeout.millis
        topology.disruptor.wait.strategy topology.backpressure.enable topology.backpressure.check.millis
        topology.backpressure.wait.strategy topology.backpressure.wait.park.microsec
        topology.backpressure.wait.progressive.level1.count topology.backpressure.wait.progressive.level2.count
        topology.backpressure.wait.progressive.level3.sleep.millis topology.bolt.wait.strategy
        topology.bolt.wait.park.microsec topology.bolt.wait.progressive.level1.count
        topology.bolt.wait.progressive.level2.count topology.bolt.wait.progressive.level3.sleep.millis
        topology.spout.wait.strategy topology.spout.wait.park.microsec topology.spout.wait.progressive.level1.count
        topology.spout.wait.progressive.level2.count topology.spout.wait.progressive.level3.sleep.millis
        topology.spout.recvq.skips topology.sleep.spout.wait.strategy.time.ms storm.messaging.transport
        storm.messaging.netty.authentication storm.messaging.netty.buffer_size
        storm.messaging.netty.buffer.high.watermark storm.messaging.netty.buffer.low.watermark
        storm.messaging.netty.client_worker_threads storm.messaging.netty.flush.check.interval.ms
        storm.messaging.netty.max_retries storm.messaging.netty.max_wait_ms storm.messaging.netty.min_wait_ms
        storm.messaging.netty.server_worker_threads storm.messaging.netty.socket.backlog
        storm.messaging.netty.transfer.batch.size storm.local.mode.zmq
    """,
    "values are encoded by msgpack, JSON, pickle or a class of yours; nothing of Java's is read or written": """
        topology.kryo.register topology.kryo.decorators topology.kryo.factory topology.state.kryo.register
        topology.skip.missing.kryo.registrations topology.fall.back.on.java.serialization topology.tuple.serializer
        topology.testing.always.try.serialize topology.multilang.log.handler topology.multilang.serializer
        topology.shellbolt.max.pending topology.subprocess.timeout.secs
    """,
    "tuple trees are not tracked yet: the wave is the unit that fails and is replayed": """
        topology.acker.executors topology.ackers topology.enable.message.timeouts topology.max.spout.pending
    """,
    "transactional topologies are not here yet": "topology.transactional.id",
    "there are no windowed bolts, tick tuples, Trident or task hooks": """
        topology.bolts.window.length.count topology.bolts.window.length.duration.ms
        topology.bolts.window.sliding.interval.count topology.bolts.window.sliding.interval.duration.ms
        topology.bolts.late.tuple.stream topology.bolts.tuple.timestamp.max.lag.ms
        topology.bolts.tuple.timestamp.field.name topology.bolts.watermark.event.interval.ms
        topology.bolts.message.id.field.name topology.tick.tuple.freq.secs topology.trident.batch.emit.interval.millis
        topology.trident.windowing.cache.tuple.limit topology.trident.parallelism.hint topology.auto.task.hooks
    """,
    "every wave has a report of its own, and logging is Python's": """
        topology.debug topology.stats.sample.rate topology.builtin.metrics.bucket.size.secs
        topology.metrics.consumer.register topology.metrics.aggregate.per.worker
        topology.metrics.aggregate.metric.evict.secs topology.metrics.expand.map.type
        topology.metrics.metric.name.separator topology.enable.v2.metrics.tick topology.worker.metrics
        topology.serialized.message.size.metrics topology.event.logger.register topology.eventlogger.executors
        topology.error.throttle.interval.secs topology.max.error.report.per.interval topology.logging.config
        topology.logging.sensitivity storm.metrics.reporters storm.daemon.metrics.reporter.plugins
        storm.daemon.metrics.reporter.plugin.locale storm.daemon.metrics.reporter.plugin.rate.unit
        storm.daemon.metrics.reporter.plugin.duration.unit storm.daemon.metrics.reporter.plugin.domain
        storm.daemon.metrics.reporter.csv.log.dir storm.daemon.metrics.reporter.interval.secs
        storm.cluster.metrics.consumer.register storm.cluster.metrics.consumer.publish.interval.secs
        storm.log4j2.conf.dir storm.logback.conf.dir storm.workers.artifacts.dir
    """,
    "users and their rights are Spark's and the state provider's": """
        topology.users topology.groups topology.readonly.users topology.readonly.groups topology.submitter.principal
        topology.submitter.user topology.auto-credentials storm.auth.simple-acl.admins storm.auth.simple-acl.users
        storm.auth.simple-acl.users.commands storm.auth.simple-white-list.users storm.doAsUser
        storm.group.mapping.service storm.group.mapping.service.cache.duration.secs storm.group.mapping.service.params
        storm.principal.tolocal storm.hdfs.login.keytab storm.hdfs.login.principal
    """,
    "there is no Storm cluster: no Nimbus, supervisor or ZooKeeper": """
        topology.state.synchronization.timeout.secs storm.id storm.cluster.mode storm.cluster.state.store
        storm.local.dir storm.local.hostname storm.disable.symlinks storm.scheduler storm.meta.serialization.delegate
        storm.network.topography.plugin storm.codedistributor.class storm.nimbus.retry.times
        storm.nimbus.retry.interval.millis storm.nimbus.retry.intervalceiling.millis storm.nimbus.zookeeper.acls.check
        storm.nimbus.zookeeper.acls.fixup storm.thrift.transport storm.thrift.socket.timeout.ms
        storm.blobstore.acl.validation.enabled storm.blobstore.dependency.jar.upload.chunk.size.bytes
        storm.blobstore.inputstream.buffer.size.bytes storm.blobstore.replication.factor storm.health.check.dir
        storm.health.check.timeout.ms storm.exhibitor.servers storm.exhibitor.port storm.exhibitor.poll.millis
        storm.exhibitor.poll.uripath storm.exhibitor.retry.times storm.exhibitor.retry.interval
        storm.exhibitor.retry.intervalceiling.millis storm.resource.isolation.plugin
        storm.resource.isolation.plugin.enable storm.supervisor.worker.manager.plugin storm.supervisor.cgroup.rootdir
        storm.cgroup.hierarchy.dir storm.cgroup.hierarchy.name storm.cgroup.resources storm.cgroup.cgexec.cmd
        storm.cgroup.memory.enforcement.enable storm.cgroup.memory.limit.tolerance.margin.mb
        storm.cgroup.inherit.cpuset.configs storm.zookeeper.servers storm.zookeeper.port storm.zookeeper.root
        storm.zookeeper.superACL storm.zookeeper.drpcACL storm.zookeeper.session.timeout
        storm.zookeeper.connection.timeout storm.zookeeper.retry.times storm.zookeeper.retry.interval
        storm.zookeeper.retry.intervalceiling.millis storm.zookeeper.auth.scheme storm.zookeeper.auth.user
        storm.zookeeper.auth.password storm.zookeeper.auth.payload storm.zookeeper.topology.auth.scheme
        storm.zookeeper.topology.auth.payload
    """,
}

STORM_KEYS: dict[str, str] = {key: reason for reason, keys in _BY_REASON.items() for key in keys.split()}
"""Each accepted key, with the reason why it has no effect."""

STORM_SECRETS = frozenset(key for key in STORM_KEYS if key.endswith((".password", ".payload")))
"""Those that hold a secret, which bolts are not shown."""
