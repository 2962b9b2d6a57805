// Workload runs in the pods of tests. It answers each HTTP request with the place in which it runs,
// according to its kernel, and with the amount of huge pages that it was told to fill.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// where is the answer.
type where struct {
	Host string `json:"host"`
	// AllowedCPUs is Cpus_allowed_list of proc_pid_status(5).
	AllowedCPUs string `json:"allowed_cpus"`
	// HugeBytes is the amount of huge pages that were written to.
	HugeBytes int `json:"huge_bytes"`
}

func main() {
	listen := flag.String("listen", ":8080", "address to answer at")
	huge := flag.String("huge", "", "directory of a file system of huge pages")
	hugeBytes := flag.Int("huge-bytes", 0, "how much of it is filled")
	flag.Parse()
	// The first process of a container ignores a signal unless it has a handler for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		os.Exit(0)
	}()
	// Listen before filling the pages, because a client may connect as soon as they are filled.
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	if *huge != "" {
		if err := fill(*huge, *hugeBytes); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, *hugeBytes) })))
}

// fill writes to each page of a file of huge pages through a mapping, which is the only way. The
// mapping stays until the process ends.
func fill(dir string, size int) error {
	f, err := os.Create(filepath.Join(dir, "filled"))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	pages, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("mapping %s: %w", f.Name(), err)
	}
	for at := 0; at < size; at += 2 << 20 {
		pages[at] = 1
	}
	return nil
}

func answer(w http.ResponseWriter, hugeBytes int) {
	host, err := os.Hostname()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	a := where{Host: host, HugeBytes: hugeBytes}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			a.AllowedCPUs = strings.TrimSpace(list)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}
