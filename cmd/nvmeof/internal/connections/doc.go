// Package connections does for a host without a kernel driver what /sys/class/nvme does on Linux. Processes hold
// controllers, each with a control socket, and other programs find them by those sockets.
//
// A [Holder] keeps the controllers of its process. A [Connector] connects to a subsystem and decides what happens when
// a controller is lost; commands use [Multipath]. A [FrontEnd] makes the namespaces available to the machine. [Serve]
// answers requests at a socket of mode 0600 in a directory shared by all processes of a user ([Dir]); [All] queries
// every process.
//
// # Names
//
// Control sockets are named PID.N.sock; the names of other files in the directory do not begin with a digit.
// Controllers and subsystems are named as on Linux, nvme0 and nvme-subsys0, with the lowest number that no process of
// the directory uses. A number is a locked file, so it becomes free when its process ends, for whatever reason. A
// subsystem has the number of its first controller, and its namespaces are named nvme0n1 and so on.
//
// The file records these names and is kept, so that a program that reconnects to a socket after a restart does not
// find another disk there. A subsystem gets the same names when it is connected again, and others take its number only
// when there is no other. The same holds for a namespace, which is identified by its NSID and identifiers together.
// Two processes that connect to one subsystem make two subsystems.
package connections
