package sizing_test

import (
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/unit"
)

// Memory counts in powers of 1024 whatever its units are called; disks have GB of
// powers of 1000. What is printed is read back as the same.
func TestSizes(t *testing.T) {
	var memory, disk unit.Size
	for _, tt := range []struct {
		text         string
		memory, disk unit.Size
		printed      string // of the disk
	}{
		{"64GB", 64 << 30, 64e9, "64GB"},
		{"64 gb", 64 << 30, 64e9, "64GB"},
		{"64GiB", 64 << 30, 64 << 30, "64GiB"},
		{"64G", 64 << 30, 64 << 30, "64GiB"},
		{"2TB", 2 << 40, 2e12, "2TB"},
		{"1500GB", 1500 << 30, 1500e9, "1500GB"},
		{"1024000kB", 1024000 << 10, 1024e6, "1024MB"},
		{"4096", 4096, 4096, "4KiB"},
	} {
		m := sizing.Size(&memory, "ram", "", 1, unit.EiB)
		d := sizing.Disk(&disk, "disk", "", 1, unit.EiB)
		if err := m.Set(tt.text); err != nil || memory != tt.memory {
			t.Errorf("%s of memory: %d, %v", tt.text, memory, err)
		}
		if err := d.Set(tt.text); err != nil || disk != tt.disk || d.String() != tt.printed {
			t.Errorf("%s of disk: %d, %s, %v", tt.text, disk, d, err)
		}
		if err := d.Set(d.String()); err != nil || disk != tt.disk {
			t.Errorf("%s comes back as %d, %v", tt.printed, disk, err)
		}
	}
	for _, text := range []string{"", "GB", "-1GB", "1.5TB", "1e9GB", "99999999999999999999GB", "20000000000GB", "5 furlongs"} {
		if err := sizing.Disk(&disk, "disk", "", 1, unit.EiB).Set(text); err == nil {
			t.Errorf("%q is %s", text, disk)
		}
	}
}

// Who is outside of a range hears of it and of its reason, and nothing is no value.
func TestRange(t *testing.T) {
	var n int
	var f float64
	for _, tt := range []struct {
		in         *sizing.Input
		text, want string
	}{
		{sizing.Count(&n, "n", "", 1, 9).Because("there are nine"), "10", "10 is more than 9: want 1 to 9 (there are nine)"},
		{sizing.Count(&n, "n", "", 1, 9), "0", "0 is less than 1: want 1 to 9"},
		{sizing.Number(&f, "n", "", 0.5, 2e7).Because("so"), "1e8", "1e8 is more than 20,000,000: want 0.5 to 20,000,000 (so)"},
		{sizing.Count(&n, "n", "", 1, 9), " ", "empty value; omit the option"},
		{sizing.Text(new(string), "n", "", nil), "", "empty value; omit the option"},
		{sizing.FileText(new(string), "n", ""), "\n", "the file is empty"},
	} {
		if err := tt.in.Set(tt.text); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.text, err, tt.want)
		}
		if tt.in.Given() {
			t.Errorf("%q was taken", tt.text)
		}
	}
}

func TestCountAsPeopleWriteIt(t *testing.T) {
	n := 0
	in := sizing.Count(&n, "hosts", "hosts", 1, 250000)
	for text, want := range map[string]int{"12000": 12000, "12k": 12000, "12,000": 12000, "1,2": 0, "12,00": 0, "0,120": 120, "1,000,000": 0, ",000": 0, "k": 0, "-5k": 0, "1.5k": 0, "5000.5": 0, "1e4": 0, "12 k": 0, "250k": 250000, "251k": 0, "12K": 0} {
		n = 0
		if err := in.Set(text); (err == nil) != (want > 0) || n != want {
			t.Errorf("%q: %d, %v; want %d", text, n, err, want)
		}
	}
}
