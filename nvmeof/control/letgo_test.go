package control

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilesAreLetGo: nothing has a file open once its namespace is removed, or the target has ended, so that its file system can
// be unmounted. A lease for reading is refused as long as something has the file open for writing (fcntl(2), F_SETLEASE).
func TestFilesAreLetGo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.apply(r.doc(recordsText))
	setRecords(r)
	for i, what := range []struct {
		file string
		end  func() error
	}{
		{"/two", func() error {
			doc := r.doc(recordsText)
			doc.Subsystems[0].Namespaces = doc.Subsystems[0].Namespaces[:1]
			_, err := r.Apply(doc, Options{Force: true})
			return err
		}},
		{"/one", r.Close},
	} {
		f, err := os.Open(r.dir + what.file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lease := func() error { _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); return err }
		if err := lease(); err != unix.EAGAIN {
			t.Skip("no lease tells who has the file open: ", err)
		}
		if err := what.end(); err != nil {
			t.Fatal(err)
		}
		if err := lease(); err != nil {
			t.Errorf("%d: %s is still open: %v", i, what.file, err)
		}
	}
}
