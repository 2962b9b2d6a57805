package cluster

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func TestRendered(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 100)
	made := 0
	body := func(dst []byte) []byte { made++; return append(dst, want...) }
	if n := length(body); n != 1000 {
		t.Errorf("%d bytes", n)
	}
	if err := iotest.TestReader(&rendered{make: body}, want); err != nil {
		t.Error(err)
	}
	r := &rendered{make: body}
	got := make([]byte, 1000)
	if _, err := io.ReadFull(r, got); err != nil || !bytes.Equal(got, want) || r.text != nil {
		t.Errorf("%v, kept %v", err, r.text != nil)
	}
	if _, err := r.Read(got); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	cut := &rendered{make: body}
	if _, err := cut.Read(got[:10]); err != nil || cut.Close() != nil || cut.text != nil {
		t.Error(err)
	}
	if made != 4 {
		t.Errorf("made %d times", made)
	}
}
