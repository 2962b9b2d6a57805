package host

import (
	"errors"
	"strings"
	"testing"
)

// A recording contains the measured sizes, and no others are known.
func TestSpaceIsRecorded(t *testing.T) {
	h := Mounted(t.TempDir())
	size, free, err := h.Space("/")
	if err != nil || size == 0 || free > size {
		t.Fatalf("%d of %d, %v", free, size, err)
	}
	h.SpaceReader = measuredOnce{size, free}
	recorder, recording := Record(h)
	if s, f, err := recorder.Space("/"); err != nil || s != size || f != free {
		t.Errorf("while recording %d of %d, %v; want %d of %d", f, s, err, free, size)
	}
	if _, _, err := recorder.Space("/gone"); err == nil {
		t.Error("a path that is not there has space")
	}
	var text strings.Builder
	if _, err := recording.WriteTo(&text); err != nil {
		t.Fatal(err)
	}
	archive, err := ParseArchive("archive", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if s, f, err := archive.Space("/."); err != nil || s != size || f != free {
		t.Errorf("the archive has %d of %d, %v; want %d of %d", f, s, err, free, size)
	}
	if _, _, err := archive.Space("/gone"); !Unknown(err) {
		t.Errorf("of what was not recorded the archive says %v", err)
	}
}

// measuredOnce is a file system of constant size and usage.
type measuredOnce [2]uint64

func (m measuredOnce) Space(p string) (size, free uint64, err error) {
	if p != "/" {
		return 0, 0, errors.New("not there")
	}
	return m[0], m[1], nil
}
