// Package processors shares the processors of the machine among the threads of the program: what a thread without work
// does ([ParsePolling]), how many processors the Go runtime has in addition to those of polling threads ([Need]), and
// how much processor time other processes used ([Usage]).
package processors
