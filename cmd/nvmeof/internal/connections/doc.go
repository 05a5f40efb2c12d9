// Package connections is what a host without a kernel driver has in place of
// /sys/class/nvme: processes that hold controllers, each with a control socket, and
// everybody else who finds them by those sockets.
//
// A [Holder] keeps the controllers of its process. How a subsystem is connected to,
// and what becomes of it when a controller is lost, is a [Connector]'s, of which
// [Multipath] is the one that commands use; how the machine gets at its namespaces is
// a [FrontEnd]'s. [Serve] answers at a socket of
// mode 0600 in a folder that all processes of a user share ([Dir]); [All] queries every
// one of them.
//
// # Names
//
// Control sockets are called PID.N.sock; others in the folder do not begin with a digit.
// Controllers and subsystems are called as Linux calls them, nvme0 and
// nvme-subsys0, by the lowest number that no process of the folder has; a number is
// a locked file, so that it is free when its process ends, however that happens. A
// subsystem has the number of its first controller, and its namespaces are nvme0n1
// and so on after it. The file notes these names, and stays: programs that come back to a
// socket after a restart do not find another disk there. The subsystem has them again
// when it is connected next, and others take its number only when there is no other one; so it
// is with a namespace, which is known by its NSID and UUID together. Two
// processes that connect to one subsystem have two subsystems.
package connections
