package logs

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Encode writes a table in the format that decode reads.
func (t *Table) Encode(w *bufio.Writer) error {
	e := encoder{w: w}
	percentiles := uint64(0)
	if t.Percentiles {
		percentiles = 1
	}
	e.number(percentiles, uint64(t.n))
	e.stats(&t.Other)
	e.number(t.Missing.Requests, t.Missing.TotalUS)
	var found []bucketCount
	for i := range t.n {
		text := t.Text(i)
		e.number(uint64(len(text)))
		e.bytes(text)
		e.stats(t.At(i))
		if !t.Percentiles {
			continue
		}
		var c counts
		t.hists.each(t.record(i), c.add)
		found = found[:0]
		c.each(func(b uint16, n uint64) { found = append(found, bucketCount{b, n}) })
		e.number(uint64(len(found)))
		last := uint16(0)
		for _, f := range found {
			e.number(uint64(f.bucket-last), f.n)
			last = f.bucket
		}
	}
	return e.err
}

type bucketCount struct {
	bucket uint16
	n      uint64
}

type encoder struct {
	w   *bufio.Writer
	err error
	buf [binary.MaxVarintLen64]byte
}

func (e *encoder) bytes(b []byte) {
	if e.err == nil {
		_, e.err = e.w.Write(b)
	}
}

func (e *encoder) number(all ...uint64) {
	for _, n := range all {
		e.bytes(e.buf[:binary.PutUvarint(e.buf[:], n)])
	}
}

func (e *encoder) stats(s *Stats) {
	e.number(s.Count, s.Sum, s.squares, s.upper, s.Min, s.Max, uint64(s.Errors), uint64(s.Untimed))
}

// errDamaged is returned for data that is not a table.
var errDamaged = errors.New("damaged: not a table of groups")

// decode reads a table that Encode wrote. limit is the maximum number of groups of the table.
func decode(r *bufio.Reader, limit int) (*Table, error) {
	d := decoder{r: r}
	percentiles, n := d.number(), d.number()
	if d.err != nil || percentiles > 1 || n > math.MaxInt32 {
		return nil, d.damaged()
	}
	t := New(percentiles == 1, limit)
	t.Other = d.stats()
	t.Missing = Missing{d.number(), d.number()}
	for range n {
		text := d.text()
		s := d.stats()
		if d.err != nil {
			return nil, d.damaged()
		}
		i := t.findOrPrune(HashParts(text), text)
		if i >= 0 && t.At(i).Count > 0 {
			return nil, fmt.Errorf("%w: repeated key", errDamaged)
		}
		b, sum, most := uint64(0), uint64(0), uint64(0)
		if percentiles == 1 {
			most = d.number()
		}
		for range most {
			b += d.number()
			k := d.number()
			if d.err != nil || b >= buckets || k == 0 || k > s.Timed()-sum {
				return nil, d.damaged()
			}
			if i >= 0 {
				t.hists.addMany(t.record(i), sum, uint16(b), k)
			}
			sum += k
		}
		if percentiles == 1 && sum != s.Timed() {
			return nil, d.damaged()
		}
		if i < 0 {
			t.Other.merge(&s)
		} else {
			t.At(i).merge(&s)
		}
	}
	return t, d.err
}

type decoder struct {
	r   *bufio.Reader
	err error
}

func (d *decoder) damaged() error {
	if d.err != nil && !errors.Is(d.err, io.EOF) && !errors.Is(d.err, io.ErrUnexpectedEOF) {
		return d.err
	}
	if d.err != nil {
		return fmt.Errorf("%w: truncated", errDamaged)
	}
	return errDamaged
}

func (d *decoder) number() uint64 {
	if d.err != nil {
		return 0
	}
	var n uint64
	n, d.err = binary.ReadUvarint(d.r)
	return n
}

// text reads a key. It allocates at most the maximum length of a key.
func (d *decoder) text() []byte {
	n := d.number()
	if n > keyPage {
		d.err = errDamaged
	}
	if d.err != nil {
		return nil
	}
	text := make([]byte, n)
	_, d.err = io.ReadFull(d.r, text)
	return text
}

func (d *decoder) stats() Stats {
	s := Stats{Count: d.number(), Sum: d.number(), squares: d.number(), upper: d.number(), Min: d.number(), Max: d.number()}
	errors, untimed := d.number(), d.number()
	if errors > s.Count || untimed > s.Count || errors > math.MaxUint32 || untimed > math.MaxUint32 {
		d.err = errDamaged
	}
	s.Errors, s.Untimed = uint32(errors), uint32(untimed)
	return s
}
