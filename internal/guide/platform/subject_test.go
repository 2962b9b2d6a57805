package platform

import (
	"context"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/testkit/machine"
)

type installed struct {
	name    string
	options map[string]string
}

func (i installed) Name() string { return i.name }
func (i installed) Option(name string) product.Option {
	if v, ok := i.options[name]; ok {
		return product.Option{File: fact.Known(v, "/etc/p.conf:3")}
	}
	return product.Option{File: fact.Absent[string]("/etc/p.conf")}
}
func (i installed) Answer(s string) fact.Answer { return fact.Answer{Value: s + " of " + i.name} }

func platformProduct(all ...product.Installed) product.Product {
	return product.Product{
		Name:       "p",
		Parameters: []product.Parameter{{Name: "max", Type: fact.Number, Default: "7"}, {Name: "size", Type: fact.Bytes}},
		Inputs:     []fact.Input{{Name: "p.version", Type: fact.Text}},
		Find:       func(context.Context, *host.Host) ([]product.Installed, error) { return all, nil },
	}
}

func TestAnswers(t *testing.T) {
	h := machine.Copy(t, map[string]string{
		"proc/sys/vm/swappiness": "10\n", "proc/sys/vm/laptop_mode": "1e3\n", "proc/sys/kernel/osrelease": "6.1.0\n", "proc/meminfo": "MemTotal: 16384 kB\n",
		"sys/block/vda/queue/scheduler": "[none] mq-deadline\n", "sys/block/vda/queue/rotational": "1\n",
	})
	for _, tt := range []struct {
		name  string
		all   []product.Installed
		input string
		want  fact.Answer
	}{
		{"a fact", nil, "memory.total_bytes", fact.Answer{Value: float64(16384 * 1024), At: "/proc/meminfo"}},
		{"a fact of a set", nil, "disk.vda.scheduler", fact.Answer{Value: "none", At: "/sys/block/vda/queue/scheduler"}},
		{"no product", nil, "p.max", fact.Answer{}},
		{"an option", []product.Installed{installed{"", map[string]string{"max": "9"}}}, "p.max", fact.Answer{Value: 9.0, At: "/etc/p.conf:3", From: fact.Files}},
		{"its default", []product.Installed{installed{"", nil}}, "p.max", fact.Answer{Value: 7.0, At: "the default of p", From: fact.Files}},
		{"none", []product.Installed{installed{"", nil}}, "p.size", fact.Answer{At: "/etc/p.conf"}},
		{"a size", []product.Installed{installed{"", map[string]string{"size": "8MB"}}}, "p.size", fact.Answer{Value: 8388608.0, At: "/etc/p.conf:3", From: fact.Files}},
		{"no size", []product.Installed{installed{"", map[string]string{"size": "many"}}}, "p.size", fact.Answer{Unknown: `/etc/p.conf:3 is "many", which is not a size`, At: "/etc/p.conf:3"}},
		{"another input", []product.Installed{installed{"a", nil}}, "p.version", fact.Answer{Value: "version of a"}},
		{"one of two", []product.Installed{installed{"a", nil}, installed{"b", map[string]string{"max": "1"}}}, "p.b.max", fact.Answer{Value: 1.0, At: "/etc/p.conf:3", From: fact.Files}},
		{"two", []product.Installed{installed{"a", nil}, installed{"b", nil}}, "p.max", fact.Answer{Unknown: "2 instances of p (a, b), but the rule applies to one"}},
		{"without a source", nil, "q.max", fact.Answer{Unknown: "no source contains this fact"}},
	} {
		s := NewSubject(context.Background(), h, setting.Kernel(h), append(Facts(), Product(platformProduct(tt.all...))))
		got := s.Answer(tt.input)
		if i := strings.Index(got.At, "/sys/"); i > 0 {
			got.At = got.At[i:]
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	s := NewSubject(context.Background(), h, setting.Kernel(h), Facts())
	for _, tt := range []struct {
		name string
		as   fact.Type
		want fact.Answer
	}{
		{"sysctl:vm.swappiness", fact.Number, fact.Answer{Value: 10.0, At: "/proc/sys/vm/swappiness"}},
		{"sysctl:vm.swappiness", fact.Truth, fact.Answer{Unknown: `/proc/sys/vm/swappiness is "10", which is not a truth value`, At: "/proc/sys/vm/swappiness"}},
		{"sysctl:vm.laptop_mode", fact.Number, fact.Answer{Unknown: `/proc/sys/vm/laptop_mode is "1e3", which is not a number`, At: "/proc/sys/vm/laptop_mode"}},
		{"sysctl:vm.dirty_ratio", fact.Number, fact.Answer{Unknown: "/proc/sys/vm/dirty_ratio is not in this copy", At: "/proc/sys/vm/dirty_ratio"}},
		{"nokind:x", fact.Text, fact.Answer{Unknown: `nokind:x: unknown kind of setting "nokind"`}},
	} {
		if got := s.Read(tt.name, tt.as); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if names, why := s.Items("disk"); why != "" || len(names) != 1 || names[0] != "vda" {
		t.Errorf("disks %v %s", names, why)
	}
}

// An MTU is written as it is known, 1500, and not as a size.
func TestUnits(t *testing.T) {
	inputs, _ := Inputs(Facts())
	units := map[string]string{}
	for _, in := range inputs {
		units[in.Name] = in.Unit
	}
	for name, want := range map[string]string{"net.*.mtu_bytes": "", "memory.total_bytes": "bytes", "kernel.uptime_s": "s"} {
		if got, ok := units[name]; !ok || got != want {
			t.Errorf("%s: %q (%v), want %q", name, got, ok, want)
		}
	}
}

// What a machine is, is asked of what only such a machine has.
func TestOf(t *testing.T) {
	h := machine.Copy(t, map[string]string{"proc/meminfo": "MemTotal: 1 kB\n"})
	s := NewSubject(context.Background(), h, setting.Kernel(h), append(Facts(), Product(platformProduct(installed{"a", nil}))))
	names, unknown := s.Of([]string{"p", "q"})
	if strings.Join(names, " ") != "linux p" || len(unknown) != 1 || unknown["q"] == "" {
		t.Errorf("%v, unknown %v", names, unknown)
	}
}
