// Package namedfile reads and replaces small files that are named by a user: configurations, keys, lists of
// controllers.
//
// Such a name may refer to anything. [Read] reads a limited number of bytes, and gives up after a time or when its
// context ends, whatever the file is: a pipe without a writer, an endless device, or a file system that does not
// answer.
//
// [Replace] leaves either the old or the new content, and keeps the owner of the file. What a crash leaves beside the
// file is removed by the next Replace. If the name is a symbolic link, the file to which it points is replaced. A file
// that root creates in the folder of another user, such as that of a service, belongs to that user. [Remove] removes a
// file durably.
package namedfile
