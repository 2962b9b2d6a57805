package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// Head is the beginning of a log, for those who want to know its format: up to n bytes,
// decompressed. Read begins with them again, also for the standard input.
func (s *Set) Head(i, n int) ([]byte, error) {
	if len(s.begun[i].head) >= n {
		return s.begun[i].head[:n], nil
	}
	r, err := s.reader(i)
	if err != nil {
		return nil, err
	}
	head := make([]byte, n)
	had := copy(head, s.begun[i].head)
	for err = nil; had < n && err == nil; {
		var k int
		k, err = r.Read(head[had:])
		had += k
	}
	s.begun[i].head = head[:had]
	if err != nil && !errors.Is(err, io.EOF) {
		s.cuts[i] = err // it comes again when it is read whole
	}
	return s.begun[i].head, nil
}

// Set is logs that are read together.
type Set struct {
	Logs []Log
	// WholeLines leaves what stands behind the last end of line for another time: it is
	// still being written.
	WholeLines bool
	// NotRead are the files of a directory that may have requests too and cannot be read.
	NotRead []NotRead
	// Copies are logs whose lines another one has (LeaveCopies).
	Copies []NotRead

	begun []begun
	zeros []int64                  // bytes that were skipped as they are zero
	cuts  []error                  // why each could not be read to its end
	holds []func(line []byte) bool // see cutter
	ends  []int64                  // how far each was read, in bytes, decompressed
	heads []*Position              // how each begins that was read through; of its Offset nothing
}

// NotRead is a file that is not read.
type NotRead struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// begun is a log of which the beginning was read.
type begun struct {
	io.ReadCloser
	head  []byte
	zeros int64 // that stand before the head
}

// NewSet is for logs that Find found.
func NewSet(logs []Log) *Set {
	return &Set{Logs: logs, begun: make([]begun, len(logs)), zeros: make([]int64, len(logs)), cuts: make([]error, len(logs)), holds: make([]func([]byte) bool, len(logs)), ends: make([]int64, len(logs)), heads: make([]*Position, len(logs))}
}

func (s *Set) reader(i int) (io.Reader, error) {
	if s.begun[i].ReadCloser == nil {
		r, err := s.Logs[i].open()
		if err != nil {
			return nil, err
		}
		if s.begun[i].ReadCloser, s.begun[i].zeros, err = skipZeros(r); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return s.begun[i].ReadCloser, nil
}

// Read reads all logs and hands each block to one of so many workers: work(w, block) is
// never called twice at a time for the same w. Compressed logs are decompressed beside
// that, as many at a time as there are workers. A log that cannot be read to its end is
// named by the error, and Cut says why; its whole lines before that were handed on, and
// those of all other logs.
func (s *Set) Read(ctx context.Context, workers int, work func(w int, b *Block)) error {
	q := &queue{workers: workers, tasks: make(chan task, workers), free: make(chan *Block, 2*workers+2)}
	for range cap(q.free) {
		q.free <- nil
	}
	next := make(chan int, len(s.Logs))
	for i := range s.Logs {
		next <- i
	}
	close(next)
	var readers, working sync.WaitGroup
	for range min(workers, len(s.Logs)) {
		readers.Go(func() {
			for i := range next {
				if s.cuts[i] = s.read(ctx, i, q); ctx.Err() != nil {
					return
				}
			}
		})
	}
	for w := range workers {
		working.Go(func() {
			for t := range q.tasks {
				if t.plain != nil {
					t.plain.read(ctx, func(b *Block) { work(w, b) })
					continue
				}
				work(w, t.block)
				q.free <- t.block
			}
		})
	}
	readers.Wait()
	close(q.tasks)
	working.Wait()
	for range len(q.free) {
		if b := <-q.free; b != nil {
			blocks.Put(b)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return s.cut()
}

// Close closes logs of which no more than the beginning was read.
func (s *Set) Close() error {
	var all []error
	for i := range s.begun {
		if s.begun[i].ReadCloser != nil {
			all = append(all, s.begun[i].Close())
		}
	}
	return errors.Join(all...)
}

// Leave leaves a log out, of which no more than the beginning was read; those behind it
// move up.
func (s *Set) Leave(i int) error {
	var err error
	if s.begun[i].ReadCloser != nil {
		err = s.begun[i].Close()
	}
	s.Logs = slices.Delete(slices.Clone(s.Logs), i, i+1)
	s.begun = slices.Delete(s.begun, i, i+1)
	s.zeros = slices.Delete(s.zeros, i, i+1)
	s.cuts = slices.Delete(s.cuts, i, i+1)
	s.holds = slices.Delete(s.holds, i, i+1)
	s.ends = slices.Delete(s.ends, i, i+1)
	s.heads = slices.Delete(s.heads, i, i+1)
	return err
}

// Hold says how a line of a log is known that belongs to the one behind it: both are then in one
// block. nil: there is none.
func (s *Set) Hold(i int, is func(line []byte) bool) { s.holds[i] = is }

// Packed says whether a log is compressed.
func (s *Set) Packed(i int) (bool, error) {
	if _, err := s.reader(i); err != nil {
		return false, err
	}
	of, is := s.begun[i].ReadCloser.(stream)
	return is && of.packed, nil
}

// Cut is why a log could not be read to its end; nil: it could, or was not read.
func (s *Set) Cut(i int) error { return s.cuts[i] }

// Zeros is how many zero bytes of a log that was read were skipped before, between and behind
// its lines.
func (s *Set) Zeros(i int) int64 { return s.zeros[i] }

// cut names the logs that could not be read to their ends.
func (s *Set) cut() error {
	var all []error
	for i, err := range s.cuts {
		if err != nil {
			all = append(all, s.named(i, err))
		}
	}
	return errors.Join(all...)
}

// named is an error of a log with its path, which that of a file system has already.
func (s *Set) named(i int, err error) error {
	if strings.Contains(err.Error(), s.Logs[i].Path) {
		return err
	}
	return fmt.Errorf("%s: %w", s.Logs[i].Path, err)
}

// blocks are those that no Read has at work.
var blocks = sync.Pool{New: func() any { return &Block{Data: make([]byte, 0, Size)} }}

// queue is what there is to do for the workers of a Read.
type queue struct {
	workers int
	tasks   chan task
	free    chan *Block // nil: one that was not made yet; a log that is followed is read again and again, a block at the most
}

// task is a block, or a plain log to take part in reading of.
type task struct {
	block *Block
	plain *plain
}

// plain is a log that its workers read themselves, a block each in turn: that is then
// already in the caches of the core that works on it, and nobody has to be woken for it.
type plain struct {
	asked sync.WaitGroup // workers

	mu   sync.Mutex
	cut  *cutter
	over bool
	err  error
}

// read works on blocks of the log as long as there are any.
func (p *plain) read(ctx context.Context, work func(b *Block)) {
	defer p.asked.Done()
	b := blocks.Get().(*Block)
	defer blocks.Put(b)
	for p.next(ctx, b) {
		work(b)
	}
}

func (p *plain) next(ctx context.Context, b *Block) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.over:
		return false
	case ctx.Err() != nil:
		p.over, p.err = true, context.Cause(ctx)
		return false
	}
	p.over, p.err = p.cut.next(b)
	return true
}

// share has the workers read a plain log.
func (q *queue) share(ctx context.Context, c *cutter) error {
	p := &plain{cut: c}
	for range q.workers {
		p.asked.Add(1)
		select {
		case q.tasks <- task{plain: p}:
		case <-ctx.Done():
			p.asked.Done()
		}
	}
	p.asked.Wait()
	if p.err != nil {
		return p.err
	}
	return context.Cause(ctx)
}

// ahead reads a log and hands its blocks to the workers.
func (q *queue) ahead(ctx context.Context, c *cutter) error {
	for {
		b := <-q.free
		if b == nil {
			b = blocks.Get().(*Block)
		}
		over, err := c.next(b)
		select {
		case q.tasks <- task{block: b}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if over {
			return err
		}
	}
}

func (s *Set) read(ctx context.Context, i int, q *queue) (err error) {
	l := s.Logs[i]
	s.ends[i] = l.skip
	r, err := s.rest(i)
	if err != nil {
		return err
	}
	if l.skip == 0 {
		s.ends[i] = s.begun[i].zeros
	}
	file, _ := s.begun[i].ReadCloser.(*os.File)
	defer s.begun[i].Close()
	if file != nil && l.was != nil && !l.was.of(file) {
		s.heads[i] = l.was // rotated just now: the next reader finds it where it has gone to
		return nil
	}
	c := &cutter{r: r, log: i, wholeLines: s.WholeLines, hold: s.holds[i]}
	if file != nil {
		err = q.share(ctx, c)
	} else {
		err = q.ahead(ctx, c)
	}
	s.ends[i] += c.to
	s.zeros[i] = s.begun[i].zeros + c.zeros
	if of, is := s.begun[i].ReadCloser.(stream); is {
		s.zeros[i] += *of.padding
	}
	if err == nil && file != nil {
		s.heads[i], err = headOf(file, min(s.ends[i], headMost))
	}
	return err
}

// rest is what is to be read of a log: from its beginning, which Head may have read, or
// from where an earlier reader was.
func (s *Set) rest(i int) (io.Reader, error) {
	if s.Logs[i].skip == 0 {
		r, err := s.reader(i)
		if err != nil {
			return nil, err
		}
		return io.MultiReader(bytes.NewReader(s.begun[i].head), r), nil
	}
	if s.begun[i].ReadCloser != nil {
		if err := s.begun[i].Close(); err != nil {
			return nil, err
		}
	}
	r, err := s.Logs[i].open()
	if err != nil {
		return nil, err
	}
	s.begun[i].ReadCloser = r
	if seeker, ok := r.(io.Seeker); ok {
		_, err = seeker.Seek(s.Logs[i].skip, io.SeekStart)
	} else {
		_, err = io.CopyN(io.Discard, r, s.Logs[i].skip)
	}
	return r, err
}
