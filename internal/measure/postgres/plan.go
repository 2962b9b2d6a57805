package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Room is the capacity of a server and its machine.
type Room struct {
	SharedBuffers int64  `json:"shared_buffers_bytes"`
	MaxWAL        int64  `json:"max_wal_bytes"`
	Connections   int    `json:"connections"` // free, without those reserved for superusers
	Others        int    `json:"others"`      // other clients' connections
	Version       string `json:"version"`
	// Cache is the number of bytes of files that the kernel can keep in memory.
	Cache int64 `json:"page_cache_bytes"`
	Free  int64 `json:"free_bytes"` // of the file system with the data
	CPUs  int   `json:"cpus"`
}

const askRoom = `SELECT json_build_object(
	'shared_buffers_bytes', pg_size_bytes(current_setting('shared_buffers')), 'max_wal_bytes', pg_size_bytes(current_setting('max_wal_size')),
	'version', split_part(current_setting('server_version'), ' ', 1),
	'connections', current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
		- (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
	'others', (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'fettle'))`

// AskRoom reads the capacity of a server. The caller adds the machine's capacity.
func AskRoom(ctx context.Context, s Server) (r Room, err error) {
	text, err := s.One(ctx, maintenance, askRoom)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal([]byte(text), &r)
}

// Asked holds the options of a bench.
type Asked struct {
	Scale      int   // of pgbench; 0: Scale, or as OutOfCache needs
	Clients    []int // nil: 1, 2, 4 ... up to four per CPU
	Rounds     int
	Step       time.Duration
	ReadOnly   bool
	OutOfCache bool
}

// Scale is the default size: about 750 MB.
const Scale = 50

// ofScale is the approximate disk size of one unit of scale, in bytes: 100,000 accounts with their
// index (PostgreSQL, pgbench: "-s").
const ofScale = 15 << 20

// outOfCache is the size of a database, as a multiple of all caches, from which reads reach the
// disk.
const outOfCache = 1.5

// MostScale is the maximum scale: 1.4 TiB.
const MostScale = 100_000

// MostClients is the largest number of clients.
const MostClients = 10_000

// Plan describes the measurements of a bench.
type Plan struct {
	Room     Room
	Scale    int
	Clients  []int
	Rounds   int
	Step     time.Duration
	ReadOnly bool
	// Left lists the numbers of clients that exceed the server's connections.
	Left []int
	// Finished, if not nil, is called with the result so far after each step except the last. An
	// error ends the run.
	Finished func(*Result) error
}

// errNoSpace is returned if a database would need more than a quarter of the free space.
var errNoSpace = errors.New("more than a quarter of the free space")

// Check returns an error if an option is out of range for any server.
func (a Asked) Check() error {
	switch {
	case a.Rounds < 1 || a.Rounds > 100:
		return fmt.Errorf("--rounds %d: want 1 to 100", a.Rounds)
	case a.Step < time.Second || a.Step > time.Hour:
		return fmt.Errorf("--step %v: want 1s to 1h", a.Step)
	case a.Scale < 0 || a.Scale > MostScale:
		return errors.New(text.Sprintf("--scale %d: want 1 to %d", a.Scale, MostScale))
	}
	for _, c := range a.Clients {
		if c < 1 || c > MostClients {
			return errors.New(text.Sprintf("--clients %d: want 1 to %d", c, MostClients))
		}
	}
	return nil
}

// Make plans a bench.
func Make(r Room, a Asked) (*Plan, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	p := &Plan{Room: r, Scale: a.Scale, Rounds: a.Rounds, Step: a.Step, ReadOnly: a.ReadOnly}
	switch {
	case p.Scale == 0 && a.OutOfCache:
		p.Scale = r.scaleOutOfCache()
	case p.Scale == 0:
		p.Scale = Scale
	}
	if need, quarter := p.needs(), r.Free/4; need > quarter {
		return nil, fmt.Errorf("%w: scale %d needs about %s including the WAL; a quarter is %s", errNoSpace, p.Scale, unit.Size(need).Human(), unit.Size(quarter).Human())
	}
	clients := slices.Clone(a.Clients)
	if len(clients) == 0 {
		for c := 1; c <= 4*max(r.CPUs, 1); c *= 2 {
			clients = append(clients, c)
		}
	}
	slices.Sort(clients)
	for _, c := range slices.Compact(clients) {
		if c > r.Connections-spare {
			p.Left = append(p.Left, c)
		} else {
			p.Clients = append(p.Clients, c)
		}
	}
	if len(p.Clients) == 0 {
		return nil, fmt.Errorf("the server has %s left, too few for %s", text.Count(max(r.Connections, 0), "connection"), text.Count(p.Left[0], "client"))
	}
	return p, nil
}

// spare is the number of connections left for other clients and for the bench's statements.
const spare = 5

// needs returns the space in bytes for the database and for the log of filling it.
func (p *Plan) needs() int64 {
	size := int64(p.Scale) * ofScale * 11 / 10
	return size + min(size, p.Room.MaxWAL)
}

func (r Room) scaleOutOfCache() int {
	return int(outOfCache*float64(r.SharedBuffers+r.Cache)/ofScale) + 1
}

// InCache returns a warning if a database of this size measures memory instead of disk reads. It
// returns "" if the database is large enough.
func (r Room) InCache(size int64) string {
	caches := r.SharedBuffers + r.Cache
	if float64(size) >= outOfCache*float64(caches) {
		return ""
	}
	scale := r.scaleOutOfCache()
	return fmt.Sprintf("this measures memory and the log, not disk reads: the database has %s, of which shared buffers and page cache hold up to %s; to read from the disk use --scale %d (about %s)",
		unit.Size(size).Human(), unit.Size(caches).Human(), scale, unit.Size(int64(scale)*ofScale).Human())
}

// TakesS estimates the duration in seconds.
func (p *Plan) TakesS() float64 {
	return float64(len(p.Clients)*p.Rounds)*(p.Step.Seconds()+1) + 0.3*float64(p.Scale)
}
