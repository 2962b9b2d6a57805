// Workload is what runs in the pods of tests: it answers each HTTP request with where it
// runs, as its kernel says it.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// where is the answer.
type where struct {
	Host string `json:"host"`
	// AllowedCPUs is Cpus_allowed_list of proc_pid_status(5).
	AllowedCPUs string `json:"allowed_cpus"`
}

func main() {
	listen := flag.String("listen", ":8080", "address to answer at")
	flag.Parse()
	// The first process of a container ends by a signal only if it asks for it.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		os.Exit(0)
	}()
	log.Fatal(http.ListenAndServe(*listen, http.HandlerFunc(answer)))
}

func answer(w http.ResponseWriter, _ *http.Request) {
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
	a := where{Host: host}
	for line := range strings.Lines(string(status)) {
		if list, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			a.AllowedCPUs = strings.TrimSpace(list)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}
