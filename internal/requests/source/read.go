package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Head returns up to n decompressed bytes from the beginning of log i, for format detection.
// Read includes these bytes again, even for the standard input.
func (s *Set) Head(i, n int) ([]byte, error) {
	if len(s.states[i].start) >= n {
		return s.states[i].start[:n], nil
	}
	r, err := s.reader(i)
	if err != nil {
		return nil, err
	}
	head := make([]byte, n)
	had := copy(head, s.states[i].start)
	for err = nil; had < n && err == nil; {
		var k int
		k, err = r.Read(head[had:])
		had += k
	}
	s.states[i].start = head[:had]
	if err != nil && !errors.Is(err, io.EOF) {
		s.states[i].cut = err // Read returns it again
	}
	return s.states[i].start, nil
}

// Set is a set of logs that are read together.
type Set struct {
	Logs []Log
	// WholeLines omits text after the last line end: it is still being written.
	WholeLines bool
	// NotRead lists unreadable files of a directory that may contain requests.
	NotRead []NotRead
	// Copies lists logs removed by LeaveCopies.
	Copies []NotRead

	states []state // by log
	done   *atomic.Int64
}

// state is the state of reading one log of a Set.
type state struct {
	reader io.ReadCloser // set once the beginning was read
	start  []byte        // the beginning, as Head returned it
	before int64         // number of zero bytes before start
	zeros  int64         // total number of skipped zero bytes
	cut    error         // why it could not be read to its end, or nil
	hold   func(line []byte) bool
	end    int64     // position read up to, in decompressed bytes
	head   *Position // identifies a log that was read; lacks Offset
	moved  bool      // it was gone when it was to be read
	piece  *Piece    // what of it is read; nil for all
}

// NotRead describes a file that is not read, with the reason.
type NotRead struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// NewSet returns a set of logs.
func NewSet(logs []Log) *Set {
	s := &Set{Logs: slices.Clone(logs), states: make([]state, len(logs)), done: new(atomic.Int64)}
	for i := range s.Logs {
		s.Logs[i].done = s.done
	}
	return s
}

// Progress returns how many bytes of all logs were read, and their size, both on disk. They
// are 0 if a log is the standard input. Progress may be called during Read.
func (s *Set) Progress() (done, all int64) {
	for _, l := range s.Logs {
		if l.Path == Stdin {
			return s.done.Load(), 0
		}
		all += l.Size
	}
	return min(s.done.Load(), all), all
}

func (s *Set) reader(i int) (io.Reader, error) {
	if s.states[i].reader == nil {
		r, err := s.Logs[i].open()
		if err != nil {
			return nil, err
		}
		if s.states[i].reader, s.states[i].before, err = skipZeros(r); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	return s.states[i].reader, nil
}

// Read reads all logs and passes each block to one of the workers. Calls of work with the same
// w never overlap. Compressed logs are decompressed concurrently, one per worker. If logs
// cannot be read to their ends, Read returns an error, and Cut the reason for each. All other
// lines were passed on.
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
				if s.states[i].cut = s.read(ctx, i, q); ctx.Err() != nil {
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

// Close closes logs that Head opened and Read did not read.
func (s *Set) Close() error {
	var all []error
	for i := range s.states {
		if s.states[i].reader != nil {
			all = append(all, s.states[i].reader.Close())
		}
	}
	return errors.Join(all...)
}

// Leave removes log i, if only Head has read it. The indices of later logs decrease by one.
func (s *Set) Leave(i int) error {
	var err error
	if s.states[i].reader != nil {
		err = s.states[i].reader.Close()
	}
	s.Logs = slices.Delete(slices.Clone(s.Logs), i, i+1)
	s.states = slices.Delete(s.states, i, i+1)
	return err
}

// Hold sets the function that reports whether a line belongs to the next one. Such lines are
// in one block. nil means that no lines belong together.
func (s *Set) Hold(i int, is func(line []byte) bool) { s.states[i].hold = is }

// Packed reports whether a log is compressed.
func (s *Set) Packed(i int) (bool, error) {
	if _, err := s.reader(i); err != nil {
		return false, err
	}
	of, is := s.states[i].reader.(stream)
	return is && of.packed, nil
}

// Cut returns why log i could not be read to its end, or nil.
func (s *Set) Cut(i int) error { return s.states[i].cut }

// Zeros returns the number of skipped zero bytes around lines of log i.
func (s *Set) Zeros(i int) int64 { return s.states[i].zeros }

// cut returns an error that names the logs that could not be read to their ends.
func (s *Set) cut() error {
	var all []error
	for i := range s.states {
		if err := s.states[i].cut; err != nil {
			all = append(all, s.named(i, err))
		}
	}
	return errors.Join(all...)
}

// named adds the path of log i to an error, unless the error contains it.
func (s *Set) named(i int, err error) error {
	if strings.Contains(err.Error(), s.Logs[i].Path) {
		return err
	}
	return fmt.Errorf("%s: %w", s.Logs[i].Path, err)
}

// blocks holds unused blocks.
var blocks = sync.Pool{New: func() any { return &Block{Data: make([]byte, 0, Size)} }}

// queue holds the work for the workers of a Read.
type queue struct {
	workers int
	tasks   chan task
	free    chan *Block // nil: not yet allocated; polls of a followed log mostly need one block
}

// task is a block to process, or a plain log to help reading.
type task struct {
	block *Block
	plain *plain
}

// plain is a log that the workers read themselves, one block each in turn. So the block is in
// the caches of the core that processes it, and no goroutine has to be woken.
type plain struct {
	asked sync.WaitGroup // workers that read this log

	mu   sync.Mutex
	cut  *cutter
	over bool
	err  error
}

// read reads and processes blocks of the log until its end.
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

// share lets all workers read a plain log, and waits for them.
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

// ahead reads a log in this goroutine and passes its blocks to the workers.
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
	s.states[i].end = l.skip
	piece := Whole
	if s.states[i].piece != nil {
		piece = *s.states[i].piece
	}
	if piece.From >= piece.To {
		if open := s.states[i].reader; open != nil {
			return open.Close()
		}
		return nil
	}
	r, err := s.part(i, piece)
	if s.WholeLines && l.of == "" && errors.Is(err, fs.ErrNotExist) {
		s.states[i].moved = true // rotated since it was found: the next poll finds it by its new name
		return nil
	}
	if err != nil {
		return err
	}
	if l.skip == 0 {
		s.states[i].end = s.states[i].before
	}
	file, _ := s.states[i].reader.(*os.File)
	defer s.states[i].reader.Close()
	if file != nil && l.was != nil && !l.was.of(file) {
		s.states[i].head = l.was // just rotated: the next poll finds it by its new name
		return nil
	}
	c := &cutter{r: r, log: i, wholeLines: s.WholeLines, hold: s.states[i].hold}
	if file != nil {
		c.done = s.done
		err = q.share(ctx, c)
	} else {
		err = q.ahead(ctx, c)
	}
	s.states[i].end += c.to
	s.states[i].zeros = s.states[i].before + c.zeros
	if of, is := s.states[i].reader.(stream); is {
		s.states[i].zeros += *of.padding
	}
	if err == nil && file != nil && piece == Whole {
		s.states[i].head, err = headOf(file, min(s.states[i].end, headMost))
	}
	return err
}

// rest returns a reader for log i from its saved position, or from the beginning. It includes
// the bytes that Head has read.
func (s *Set) rest(i int) (io.Reader, error) {
	if s.Logs[i].skip == 0 {
		r, err := s.reader(i)
		if err != nil {
			return nil, err
		}
		return io.MultiReader(bytes.NewReader(s.states[i].start), r), nil
	}
	if s.states[i].reader != nil {
		if err := s.states[i].reader.Close(); err != nil {
			return nil, err
		}
	}
	r, err := s.Logs[i].open()
	if err != nil {
		return nil, err
	}
	s.states[i].reader = r
	if seeker, ok := r.(io.Seeker); ok {
		_, err = seeker.Seek(s.Logs[i].skip, io.SeekStart)
		s.done.Add(s.Logs[i].skip)
	} else {
		_, err = io.CopyN(io.Discard, r, s.Logs[i].skip)
	}
	return r, err
}
