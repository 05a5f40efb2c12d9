package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
)

const (
	block   = 4096
	blocks  = 256
	writers = 8 // each has one write outstanding
)

// fence takes a volume away while the machine writes to it. Once ControllerUnpublishVolume has returned, the volume's
// file must not change and the machine's writes must fail. Another volume must not be disturbed.
func (o *orchestrator) fence(files string) error {
	c := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}}
	var both [2]*volume
	for i, name := range []string{"fenced", "other"} {
		v, err := o.attach(name, blocks*block, c)
		if err != nil {
			return err
		}
		both[i] = v
	}
	w := &writing{begun: make(chan struct{}, writers), ended: make(chan error, writers)}
	for i := range writers {
		go w.run(both[0].pod, i) // ends with its first error
	}
	for range writers {
		select {
		case <-w.begun:
		case err := <-w.ended:
			return fmt.Errorf("writing: %w", err)
		}
	}
	began := time.Now()
	if err := o.take(both[0]); err != nil {
		return err
	}
	took := time.Since(began)
	before, err := os.ReadFile(filepath.Join(files, "fenced.img"))
	if err != nil {
		return err
	}
	end := time.After(time.Minute)
	for range writers {
		select {
		case err = <-w.ended:
		case <-end:
			return errors.New("the machine writes yet, a minute after the volume was taken away")
		}
	}
	fmt.Printf("# taken away within %.0f ms, after %d writes the last failed %.0f ms later: %v\n", took.Seconds()*1000, w.done.Load(), (time.Since(began)-took).Seconds()*1000, err)
	if err := o.unchanged(files, both, before); err != nil {
		return err
	}
	// After a restart the driver finds no device of the first volume, and must not touch the connection of the second.
	if err := errors.Join(o.kill(), o.unchanged(files, both, before)); err != nil {
		return err
	}
	for _, v := range both {
		for _, step := range []func(*volume) error{o.leave, o.take, o.remove} {
			if err := step(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// unchanged checks that writes to the fenced volume fail, that its file is unchanged, and that the other volume accepts
// writes.
func (o *orchestrator) unchanged(files string, both [2]*volume, before []byte) error {
	for range 20 {
		if f, err := os.OpenFile(both[0].pod, os.O_WRONLY|unix.O_DIRECT, 0); err == nil {
			_, err = f.Write(aligned())
			if f.Close(); err == nil {
				return errors.New("a write succeeds to what was taken away")
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	after, err := os.ReadFile(filepath.Join(files, "fenced.img"))
	if err != nil {
		return err
	}
	if !bytes.Equal(after, before) {
		return errors.New("the file has changed since the volume was taken away")
	}
	f, err := os.OpenFile(both[1].pod, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(aligned()); err != nil {
		return fmt.Errorf("the other volume: %w", err)
	}
	return nil
}

// aligned returns a block for direct I/O.
func aligned() []byte {
	m, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	return m
}

// A writing overwrites a device with numbers.
type writing struct {
	begun chan struct{} // receives once from each writer, when it has written everything once
	ended chan error    // receives the error of each writer
	done  atomic.Int64
}

// run overwrites the part of one writer again and again, until a write fails.
func (w *writing) run(path string, part int) {
	f, err := os.OpenFile(path, os.O_WRONLY|unix.O_DIRECT, 0)
	if err != nil {
		w.ended <- err
		return
	}
	b := aligned()
	for i := uint64(1); err == nil; i++ {
		for at := 0; at < block; at += 8 {
			binary.BigEndian.PutUint64(b[at:], i)
		}
		const each = blocks / writers
		if _, err = f.WriteAt(b, int64(part*each+int(i%each))*block); err == nil {
			w.done.Add(1)
		}
		if i == each {
			w.begun <- struct{}{}
		}
	}
	w.ended <- errors.Join(err, f.Close())
}
