package config

// noCounterpart is the advice for a file that cannot be converted to a document.
const noCounterpart = "it has no counterpart here: write a configuration, as nvmeof target schema describes it"

// ofOthers returns a problem if a file is the configuration of another target, else nil. Otherwise each of its
// fields would be a problem of its own.
func ofOthers(n *node) *Problem {
	switch {
	case n.kind != kindObject || n.get("version") != nil:
		return nil
	case isSPDK(n):
		return &Problem{At: n.at, Text: "this is a configuration of SPDK, and none of this target", Fix: noCounterpart}
	case n.get("ports") != nil:
		return &Problem{
			At: n.at, Text: "this is what nvmetcli saves of the kernel's target, and no configuration of this one",
			Fix: "nvmeof target import FILE makes one of it",
		}
	}
	return nil
}

// isSPDK reports whether a file is the output of SPDK's save_config: calls of its API, grouped by SPDK subsystem.
func isSPDK(n *node) bool {
	all := n.get("subsystems").list()
	return len(all) > 0 && all[0].get("subsystem") != nil && all[0].get("config") != nil
}
