package metrics

// families are the metrics of a target.
type families struct {
	build, start *family

	subsystem, subsystemNamespaces, subsystemHosts *family

	namespace, size, used, ready, inFlight       *family
	commands, bytes, errors, duration, backend   *family
	fabric                                       *family
	reservation, registrants                     *family
	controllers, queues                          *family
	auth, admission, limits, undelivered, slowed *family
	requests, shardBusy, shardLoop               *family
	conflicts, listeners, spare                  *family

	connects, rejects, disconnects, keepAlives, admin, asyncEvents, aborts *family
	ana, anaChanges, discoveries, reservations, hosts, control, log        *family
}

func newFamilies() *families {
	return &families{
		build: gauge("nvmf_build_info", "The program, always 1.", "version", "revision", "goversion"),
		start: gauge("nvmf_start_time_seconds", "When the target was started, in Unix time."),

		subsystem:           gauge("nvmf_subsystem_info", "A subsystem, always 1.", "nqn", "serial", "model", "allow_any_host"),
		subsystemNamespaces: gauge("nvmf_subsystem_namespaces", "Namespaces of the subsystem.", "nqn"),
		subsystemHosts:      gauge("nvmf_subsystem_hosts_allowed", "Hosts that are allowed by name.", "nqn"),

		namespace: gauge("nvmf_namespace_info", "A namespace, always 1.", "nqn", "nsid", "uuid", "backend", "source", "ana_group"),
		size:      gauge("nvmf_namespace_size_bytes", "Size as hosts see it.", "nqn", "nsid"),
		used:      gauge("nvmf_namespace_used_bytes", "What the store has allocated; all where it does not know.", "nqn", "nsid"),
		ready:     gauge("nvmf_namespace_ready", "1 while it is served, here or by another gateway; 0 while it waits for its store, or that has failed or does not answer.", "nqn", "nsid"),
		inFlight:  gauge("nvmf_commands_in_flight", "I/O commands that have begun and were not answered yet.", "nqn", "nsid"),
		commands:  counter("nvmf_commands_total", "I/O commands that were answered.", "nqn", "nsid", "op"),
		bytes:     counter("nvmf_data_bytes_total", "Data of Reads and Writes that succeeded.", "nqn", "nsid", "direction"),
		errors:    counter("nvmf_command_errors_total", "I/O commands that failed, by status code type and status code; nsid is empty where they reached no namespace.", "nqn", "nsid", "sct", "sc"),
		duration:  histogram("nvmf_command_duration_seconds", "From the arrival of a command's capsule until its response was sent.", "nqn", "nsid", "op"),
		backend:   histogram("nvmf_backend_duration_seconds", "The part of it in which the store had the command.", "nqn", "nsid", "op"),
		fabric:    histogram("nvmf_fabric_duration_seconds", "How long data was on its way: RDMA READs of what is written (op write), RDMA WRITEs of what is read until they were acknowledged (op read).", "op"),

		reservation: gauge("nvmf_reservation_info", "1 while the namespace is reserved.", "nqn", "nsid", "type"),
		registrants: gauge("nvmf_reservation_registrants", "Hosts that are registered for reservations.", "nqn", "nsid"),

		controllers: gauge("nvmf_controllers", "Controllers of connected hosts, by kind: io or discovery.", "nqn", "kind"),
		queues:      gauge("nvmf_queue_pairs", "Queues that are connected, by kind: admin or io.", "kind"),

		auth:        counter("nvmf_auth_total", "Authentications, by result.", "result"),
		admission:   counter("nvmf_connections_dropped_total", "Connections that had not authenticated or named their host, and made room for others, or were too late.", "reason"),
		limits:      counter("nvmf_controller_limits_total", "What the limits of controllers did: refused, displaced, unanswered.", "result"),
		undelivered: counter("nvmf_undelivered_queues_total", "Connections that were ended since their hosts answered, but took nothing of what they were sent."),
		slowed:      counter("nvmf_slowed_queues_total", "Queues that had less room for a while, since others waited for data that their hosts did not deliver."),
		requests:    counter("nvmf_connect_requests_dropped_total", "Connection requests that the RDMA device refused by itself.", "reason"),

		listeners: gauge("nvmf_listeners", "Listeners that are open."),
		spare:     gauge("nvmf_namespace_spare_ratio", "How much of what the store may still allocate its file system has left, from 0 to 1; 1 where it is preallocated.", "nqn", "nsid"),
		conflicts: counter("nvmf_reservation_conflicts_total", "I/O commands that another host's reservation excluded.", "nqn", "nsid"),

		connects:    counter("nvmf_connects_total", "Connect commands, one for each queue: ok, or why they failed.", "result"),
		rejects:     counter("nvmf_connect_rejects_total", "Connection requests that were rejected, by the status of the rejection.", "reason"),
		disconnects: counter("nvmf_disconnects_total", "Queues that ended, by why: host, lost, keepalive, admin and others; and kind, admin or io.", "reason", "kind"),
		keepAlives:  counter("nvmf_keepalive_timeouts_total", "Controllers that ended since their host was silent for longer than its keep alive timeout.", "nqn"),
		admin:       counter("nvmf_admin_commands_total", "Admin and fabrics commands, by what they were and their result: ok, or status code type and status code.", "opcode", "result"),
		asyncEvents: counter("nvmf_async_events_total", "Asynchronous events that were reported to hosts.", "type"),
		aborts:      counter("nvmf_aborts_total", "I/O commands that ended early: aborted by the host, at a disconnect, or by a preemption.", "cause"),

		ana:          gauge("nvmf_ana_state", "1 for the state that the listener shows for an ANA group with namespaces of the subsystem, 0 for the others.", "nqn", "listener", "group", "state"),
		anaChanges:   counter("nvmf_ana_changes_total", "ANA states that were changed, at each listener, by the new one.", "group", "to"),
		discoveries:  counter("nvmf_discovery_requests_total", "Reads of the discovery log, by result: ok, or status code type and status code.", "result"),
		reservations: counter("nvmf_reservation_changes_total", "Commands that change reservations, by what they do: register, unregister, replace, acquire, preempt, preempt_abort, release or clear; and their result: ok, or status code type and status code.", "action", "result"),
		hosts:        gauge("nvmf_host_connected", "1 for a host that is connected, from an address; only where that is configured, since hosts come and go.", "nqn", "host_nqn", "host_address"),
		control:      counter("nvmf_control_requests_total", "Requests to the control API, by route and status of HTTP.", "method", "route", "code"),
		log:          counter("nvmf_log_events_total", "Lines of the log, by level.", "level"),

		shardBusy: counter("nvmf_shard_busy_seconds_total", "Time in which the shard had something to do.", "shard"),
		shardLoop: histogram("nvmf_shard_loop_seconds", "Turns of the shard's loop in which it had something to do.", "shard"),
	}
}
