package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	bbolt "go.etcd.io/bbolt/errors"
)

// checkDatabase walks all pages of etcd's database in dir that are in use: their order, keys, and where values end. Over a page that
// is not what it wrote, bbolt panics, and it and etcd read the database on goroutines of their own, where nobody can recover. What
// values say is not looked at: over those etcd reports an error. A list of free pages etcd does not keep in the file.
func checkDatabase(dir string) error {
	path := filepath.Join(dir, "member", "snap", "db")
	if err := walkDatabase(path); err != nil {
		return fmt.Errorf("database %s: %w", path, err)
	}
	return nil
}

func walkDatabase(path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a damaged offset may lead out of the file
	defer func() {
		if p := recover(); p != nil {
			err = corruptError{fmt.Errorf("%v", p)}
			if _, is := p.(runtime.Error); is {
				err = corruptError{errors.New("a page points out of the file")}
			}
		}
	}()
	if info, err := os.Stat(path); err == nil && info.Size() == 0 {
		return nil // etcd fills it
	}
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, MmapFlags: populate, NoStatistics: true, Timeout: time.Second})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, bbolt.ErrTimeout):
		return nil // etcd makes it, or says who has it
	case err != nil:
		return err
	}
	defer db.Close()
	tx, err := db.Begin(false)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return walkBucket(b, tx.Size()) })
}

// walkBucket compares keys, and reads the first and last byte of each value; etcd's buckets hold no others. size is the database's, in bytes.
func walkBucket(b *bolt.Bucket, size int64) error {
	var read byte
	var last []byte
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if int64(len(k)) > size || int64(len(v)) > size {
			return corruptError{errors.New("an entry is longer than the file")}
		}
		if bytes.Compare(last, k) >= 0 {
			return corruptError{errors.New("its keys are not in order")}
		}
		last = k
		read ^= ends(k) ^ ends(v)
	}
	runtime.KeepAlive(read) // or the compiler leaves the reads out
	return nil
}

func ends(b []byte) byte {
	if len(b) == 0 {
		return 0
	}
	return b[0] ^ b[len(b)-1]
}
