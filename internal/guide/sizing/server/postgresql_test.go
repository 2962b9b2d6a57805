package server

import (
	"strings"
	"testing"

	guidesizing "fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/testkit/sizing"
)

// What pgtune gives for the same machines.
func TestPostgreSQLExamples(t *testing.T) {
	f := sizing.Figures(t)
	for _, tt := range []struct {
		said    string
		want    string // NAME=VALUE...
		missing string
		note    string
	}{
		{"workload=oltp connections=100 ram=8GiB cpus=4 disk=san version=14",
			"shared_buffers=2GB effective_cache_size=6GB maintenance_work_mem=512MB wal_buffers=16MB default_statistics_target=100 random_page_cost=1.1 effective_io_concurrency=300 min_wal_size=2GB max_wal_size=8GB max_worker_processes=4 max_parallel_workers_per_gather=2 max_parallel_workers=4 max_parallel_maintenance_workers=2 huge_pages=try checkpoint_completion_target=0.9 work_mem=20164kB max_connections=100", "", ""},
		{"workload=dw connections=20 ram=64GiB cpus=32 disk=nvme",
			"shared_buffers=16GB maintenance_work_mem=8GB max_parallel_workers_per_gather=16 max_parallel_maintenance_workers=4 default_statistics_target=500 effective_io_concurrency=1000 max_wal_size=16GB min_wal_size=4GB work_mem=161319kB", "", ""},
		{"workload=dw connections=20 ram=512GiB cpus=8", "maintenance_work_mem=8GB", "", ""},
		{"workload=mixed connections=100 ram=16GiB cpus=2 disk=hdd", "shared_buffers=4GB random_page_cost=4 effective_io_concurrency=2 work_mem=19418kB min_wal_size=1GB max_wal_size=4GB", "max_worker_processes", ""},
		{"workload=oltp connections=1000 ram=8GiB cpus=4", "work_mem=4MB", "", ""},
		{"workload=oltp connections=5000 ram=32GiB cpus=4", "work_mem=4MB", "", "may sort more than once"},
		{"workload=oltp connections=10 ram=256MiB cpus=1", "shared_buffers=64MB huge_pages=off wal_buffers=1966kB", "", ""},
		{"workload=oltp connections=10 ram=16GiB cpus=8 version=10", "max_parallel_workers=8", "max_parallel_maintenance_workers", ""},
	} {
		t.Run(tt.said, func(t *testing.T) {
			r := sizing.Sized(t, f, NewPostgreSQL(), sizing.Words(tt.said)...)
			file := r.Artefact(PostgreSQLFile).Content
			for w := range strings.FieldsSeq(tt.want) {
				name, value, _ := strings.Cut(w, "=")
				if !strings.Contains(file, "\n"+name+" = "+value+"\n") {
					t.Errorf("%s: want %s in\n%s", tt.said, w, file)
				}
				sizing.Want(t, r, map[string]string{"postgresql/" + name: value})
			}
			if tt.missing != "" && strings.Contains(file, tt.missing) {
				t.Errorf("%s: there is %s", tt.said, tt.missing)
			}
			if !strings.Contains(strings.Join(r.Notes, " "), tt.note) {
				t.Errorf("%s: no note has %q: %q", tt.said, tt.note, r.Notes)
			}
		})
	}
}

func TestPostgreSQLBadInput(t *testing.T) {
	sizing.Refused(t, NewPostgreSQL, sizing.Words, map[string]string{
		"":                               "--connections: not given",
		"connections=10":                 "--ram: not given",
		"connections=10 ram=1GiB":        "--cpus: not given",
		"connections=-5":                 "less than 1",
		"connections=10 ram=1MiB":        "less than",
		"connections=10 ram=1GiB cpus=0": "less than 1",
		"connections=10 ram=1GiB cpus=1 disk=ram":     "want hdd, ssd",
		"connections=10 ram=1GiB cpus=1 workload=web": "want oltp, dw, mixed",
		"connections=10 ram=1GiB cpus=1 version=9.6":  `--version "9.6": want a version from`,
		"connections=262144 ram=1GiB cpus=1":          "want 1 to 262,143 (the limit of PostgreSQL",
		"connections=300 ram=1GiB cpus=1":             "use 2GiB, or fewer connections",
		"connections=9000 ram=16GiB cpus=1":           "use 49GiB",
		"connections=10 ram=1GiB cpus=1025":           "want 1 to 1,024 (the limit of max_parallel_workers",
		"connections=10 ram=1GiB cpus=1 disk=":        "empty value",
	})
}

func FuzzPostgreSQLWish(f *testing.F) {
	sizing.Fuzz(f, NewPostgreSQL, []string{"workload=oltp connections=100 ram=8GiB cpus=4", "connections=100000 ram=256MiB cpus=1 workload=dw disk=hdd version=10", "connections=1 ram=64TiB cpus=1024"}, func(t *testing.T, r *guidesizing.Result) {
		for line := range strings.Lines(r.Artefact(PostgreSQLFile).Content) {
			if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " = "); line[0] != '#' && (!ok || name == "" || value == "" || strings.HasPrefix(value, "-")) {
				t.Fatalf("line %q", line)
			}
		}
	})
}
