// Package product reads, judges and sets the options of server products. Input: a product's files
// on a machine, and its running program's reports. Output: option values (in the files, running),
// inputs for rules, and a setting kind that writes options through the journal and reloads or
// restarts the program.
//
// This package has the parts that all products share: parameters, packages, processes, start and
// stop. The packages below it:
//
//	conf          reads and changes one assignment of a configuration file
//	accesslog     the formats of request logs that servers' configurations name
//	table         the list of all products
//	etcd, foreman, haproxy, httpd, kubelet, mosquitto, nginx, postgresql,
//	prometheus, puppetserver, qpid, redis
//	              one product each; foreman is Puma and Dynflow
package product
