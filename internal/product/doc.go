// Package product reads, judges and sets the options of server products. It takes the files of
// a product on a machine and the reports of its running program. It provides the values of the
// options (intended, in the file, running), inputs for rules, and a kind of setting that
// writes options through the journal and reloads or restarts the program.
//
// This package has the parts that all products share: parameters, packages, processes, start
// and stop. The packages below it:
//
//	conf          reads and changes one assignment of a configuration file, every other byte stays
//	accesslog     the formats of request logs that servers' configurations name
//	table         the list of all products
//	etcd, foreman, haproxy, httpd, kubelet, mosquitto, nginx, postgresql,
//	prometheus, puppetserver, qpid, redis
//	              one product each; foreman is Puma and Dynflow
package product
