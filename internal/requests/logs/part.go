package logs

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/klauspost/compress/zstd"

	"fettle.dev/fettle/internal/text"
)

// partSchema identifies a part: a saved result that can be merged with others.
const partSchema = "fettle/logs-part/v3"

// PartBegins is the beginning of a part's file: the magic number of zstd.
var PartBegins = []byte{0x28, 0xb5, 0x2f, 0xfd}

// part is the header of a part, one line of JSON. The tables follow it.
type part struct {
	Schema string `json:"schema"`
	summary
	Groups int `json:"groups"`
	Step   int `json:"step"`
	Chunks int `json:"chunks"`
}

// Save writes a result for Load. zstd's checksum detects later damage.
func (r *Result) Save(to io.Writer) error {
	z, err := zstd.NewWriter(to)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(z)
	groups := 0
	for _, t := range r.Tables {
		groups = t.Limit
	}
	r.readings()
	head, err := json.Marshal(part{partSchema, r.summary, groups, r.timeline.step, len(r.timeline.chunks)})
	if err != nil {
		return err
	}
	_, err = w.Write(append(head, '\n'))
	for _, t := range append([]*Table{r.Hours}, r.Tables...) {
		err = errors.Join(err, t.Encode(w))
	}
	return errors.Join(err, r.timeline.encode(w), w.Flush(), z.Close())
}

// readings identifies the readings in a result. Merge uses it to count no reading twice.
func (r *Result) readings() []string {
	if len(r.IDs) == 0 {
		r.IDs = []string{rand.Text()}
	}
	return r.IDs
}

// partMemory limits the memory for decompressing a part, in bytes.
const partMemory = 256 << 20

// Load reads a result that Save wrote.
func Load(from io.Reader) (*Result, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(partMemory))
	if err != nil {
		return nil, err
	}
	defer z.Close()
	in := bufio.NewReader(z)
	line, err := bounded(in, 16<<20)
	if err != nil {
		return nil, fmt.Errorf("not a part of fettle logs --save: %w", err)
	}
	var p part
	if err := json.Unmarshal(line, &p); err != nil || p.Schema != partSchema {
		return nil, fmt.Errorf("not a part of fettle logs --save: the first line is not %s", partSchema)
	}
	if p.Groups < 1 && len(p.By) > 0 || len(p.By) > 1000 || p.Step < 0 || p.Step >= len(steps) || p.Chunks < 0 || p.Chunks > 4*mostChunks {
		return nil, errors.New("damaged part of fettle logs --save: impossible values")
	}
	if len(p.IDs) == 0 || slices.Contains(p.IDs, "") {
		return nil, errors.New("part of fettle logs --save without an identifier; save the part again")
	}
	r := &Result{summary: p.summary, merged: true}
	tables := make([]*Table, 1+len(p.By))
	for i := range tables {
		limit := p.Groups
		if i == 0 {
			limit = mostHours
		}
		if tables[i], err = decode(in, limit); err != nil {
			return nil, err
		}
	}
	r.Hours, r.Tables = tables[0], tables[1:]
	r.timeline.step = p.Step
	if err := r.timeline.decode(in, p.Chunks); err != nil {
		return nil, err
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return nil, errors.Join(errors.New("damaged part of fettle logs --save: data after the end"), err)
	}
	return r, nil
}

// bounded reads a line of at most n bytes.
func bounded(in *bufio.Reader, n int) (line []byte, err error) {
	for {
		some, err := in.ReadSlice('\n')
		line = append(line, some...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
		if len(line) > n {
			return nil, text.Errorf("the first line of the part is longer than %d bytes", n)
		}
	}
}

func (t *timeline) encode(w io.Writer) error {
	for _, n := range slices.Sorted(maps.Keys(t.chunks)) {
		if err := binary.Write(w, binary.LittleEndian, n); err != nil {
			return err
		}
		if err := binary.Write(w, binary.LittleEndian, t.chunks[n].used); err != nil {
			return err
		}
		for _, c := range t.chunks[n].cells {
			if err := binary.Write(w, binary.LittleEndian, cellRecord{c.count, c.errors, c.busy, c.through}); err != nil {
				return err
			}
		}
	}
	return nil
}

// cellRecord is the encoded form of a cell.
type cellRecord struct {
	Count, Errors uint32
	Busy          uint64
	Through       int64
}

func (t *timeline) decode(r io.Reader, chunks int) error {
	for range chunks {
		var n int64
		if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
			return fmt.Errorf("truncated part of fettle logs --save: %w", err)
		}
		var used bool
		if err := binary.Read(r, binary.LittleEndian, &used); err != nil {
			return fmt.Errorf("truncated part of fettle logs --save: %w", err)
		}
		if used {
			t.use(n << 6)
		}
		for i := range int64(chunkCells) {
			var c cellRecord
			if err := binary.Read(r, binary.LittleEndian, &c); err != nil {
				return fmt.Errorf("truncated part of fettle logs --save: %w", err)
			}
			if c != (cellRecord{}) {
				*t.at(n<<6 + i) = cell{c.Count, c.Errors, c.Busy, c.Through}
			}
		}
	}
	return nil
}
