// Command crossings counts how the packages of a folder call each other, and checks limits:
//
//	go run ./test/crossings
//
// It prints two things for nvmeof/target.
//
// The calls of a READ: how many calls from one package into another the packages of the
// folder make for one READ of 4 KiB, from the capsule's arrival to the acknowledgement of
// the response. TestReads of the folder carries out READs under Go's coverage counters,
// once few and once many, so that what is done once for a connection cancels out; each
// call then counts as often as its block was executed. Counted are calls of functions and
// methods, also through interfaces, into any package of this module. Not counted are
// built-in functions and the standard library, what packages below the folder call in
// their turn, and what a shard does once a turn for all its commands (the functions named
// Poll and Arm). Both operands of && and || count as executed.
//
// The references back up: a reference is a function of one room of the folder together with
// a function of another one that it calls. Rooms are the packages, and the two halves of
// nvmeof/target itself: the session, which is what shards own, and above it the
// administration. A reference goes back up where the session calls the administration, or
// where the package of the called function imports the caller's. That is possible in three
// ways only: by a method of an interface, for each type of the folder that implements it; by
// a function that the upper package hands to the lower one, as an argument or in a field
// (loops over functions aside); and by an assertion that an interface of the lower package
// is a type of the upper.
//
// It fails where a structure embeds a type of another package of the folder.
package main
