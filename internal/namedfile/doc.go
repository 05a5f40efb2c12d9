// Package namedfile reads and replaces small files that somebody names:
// configurations, keys, lists of controllers.
//
// A name can be that of anything. [Read] takes so many bytes and no more, and gives up
// after a while, or when its context ends, whatever the file is: a pipe into which
// nobody writes, a device without an end, a file system that does not answer.
//
// [Replace] leaves the old content or the new, and a file that belongs to whom it
// belonged. What a kill or a power failure leaves beside it the next Replace removes. A symbolic link stays: the file that it points to is replaced. What root
// makes in a folder of another user, say that of a service, becomes that user's.
// [Remove] removes one for good.
package namedfile
