package memory

import (
	"strings"
	"testing"
)

const (
	smapsText = `7f0000000000-7f0000200000 rw-p 00000000 00:00 0 
Size:               2048 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac sd hg 
7f0000200000-7f0000600000 rw-p 00000000 00:0f 99 /anon_hugepage (deleted)
AnonHugePages:         0 kB
Private_Hugetlb:    4096 kB
7f0000600000-7f0000800000 rw-p 00000000 00:00 0 
AnonHugePages:      2048 kB
`
	numaText = `7f0000000000 bind:1 anon=512 dirty=512 N0=128 N1=384 kernelpagesize_kB=4
7f0000200000 default file=/N9=3 N1=2
55d000000000 default anon=3 N0=3 kernelpagesize_kB=4
`
)

func TestBacking(t *testing.T) {
	for _, c := range []struct {
		from, to uint64
		want     int64
	}{{0x7f0000000000, 0x7f0000200000, 2 << 20}, {0x7f0000000000, 0x7f0000600000, 6 << 20}, {0x7f0000200000, 0x7f0000600000, 4 << 20}} {
		if n, err := hugeBytes(strings.NewReader(smapsText), c.from, c.to); n != c.want || err != nil {
			t.Errorf("%x: %d, %v", c.from, n, err)
		}
	}
	if _, err := hugeBytes(strings.NewReader(smapsText), 1, 2); err == nil {
		t.Error("a mapping that is not there")
	}
	if s, err := onNode(numaText, 0x7f0000000000, 0x7f0000200000, 1); s != 0.75 || err != nil {
		t.Errorf("%v %v", s, err)
	}
	if _, err := onNode(numaText, 1, 2, 1); err == nil {
		t.Error("pages that are not there")
	}
}

func FuzzBacking(f *testing.F) {
	f.Add(smapsText, numaText)
	f.Add("0-1 x\nAnonHugePages: 99999999999999999999 kB\n", "0 N1=99999999999999999999")
	f.Fuzz(func(t *testing.T, smaps, numa string) {
		if n, err := hugeBytes(strings.NewReader(smaps), 0, 1<<60); err == nil && n < 0 {
			t.Errorf("%d bytes", n)
		}
		if s, err := onNode(numa, 0, 1<<60, 1); err == nil && !(s >= 0 && s <= 1) {
			t.Errorf("share %v", s)
		}
	})
}
