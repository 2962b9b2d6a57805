package cluster

import (
	"io"
	"sync"
)

// buffers are for bodies while they are written.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// length is that of a body, in bytes.
func length(body Body) int64 {
	b := buffers.Get().(*[]byte)
	defer buffers.Put(b)
	*b = body((*b)[:0])
	return int64(len(*b))
}

// rendered is a body that is made when it is read, and kept no longer.
type rendered struct {
	make Body
	text *[]byte
	at   int
	done bool
}

// Read makes the body with the first call.
func (r *rendered) Read(dst []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	if r.text == nil {
		r.text = buffers.Get().(*[]byte)
		*r.text = r.make((*r.text)[:0])
	}
	n := copy(dst, (*r.text)[r.at:])
	if r.at += n; r.at == len(*r.text) {
		return n, r.Close() // what reads as much as there is does not ask again
	}
	return n, nil
}

// Close gives the body up.
func (r *rendered) Close() error {
	if r.text != nil {
		buffers.Put(r.text)
		r.text = nil
	}
	r.done = true
	return nil
}
