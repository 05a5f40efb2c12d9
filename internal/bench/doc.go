// Package bench generates load on local or remote stores and measures them, like fio: each job is a thread that keeps a
// number of requests in flight and times each of them. It works on [backend.Store], which a controller's namespace
// implements too, so that the cost of a fabric is the difference of two results.
package bench
