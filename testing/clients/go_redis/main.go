// A session of go-redis: what its users use, asserted.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	servers = strings.Split(os.Getenv("RAMHOLD_RESP"), ",")
	prefix  = fmt.Sprintf("go:%d:", os.Getpid())
	ctx     = context.Background()
)

func client(server int, change ...func(*redis.Options)) *redis.Client {
	options := &redis.Options{Addr: servers[server%len(servers)], ReadTimeout: 20 * time.Second}
	for _, each := range change {
		each(options)
	}
	return redis.NewClient(options)
}

func key(name string) string { return prefix + name }

// The sum of what is wrong in a topic.
type wrong struct{ text string }

func expect[T comparable](what string, got, expected T) {
	if got != expected {
		panic(wrong{fmt.Sprintf("%s: got %v, expected %v", what, got, expected)})
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(wrong{err.Error()})
	}
	return value
}

func eventually(what string, condition func() bool) {
	end := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(end) {
			panic(wrong{"not within 10 s: " + what})
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func values() {
	r, other := client(0), client(1)
	all := make([]byte, 1024)
	for n := range all {
		all[n] = byte(n)
	}
	expect("SET", must(r.Set(ctx, key("binary"), all, 0).Result()), "OK")
	expect("GET", bytes.Equal(must(other.Get(ctx, key("binary")).Bytes()), all), true)
	expect("GET of none", errors.Is(r.Get(ctx, key("none")).Err(), redis.Nil), true)
	expect("SETNX", must(r.SetNX(ctx, key("a"), "x", time.Hour).Result()), true)
	expect("SETNX again", must(r.SetNX(ctx, key("a"), "y", time.Hour).Result()), false)
	expect("GETDEL", must(r.GetDel(ctx, key("a")).Result()), "x")
	large := strings.Repeat("x", 1000000)
	must(r.Set(ctx, key("large"), large, 0).Result())
	expect("a large value", must(other.Get(ctx, key("large")).Result()), large)
	expect("INCRBY", must(r.IncrBy(ctx, key("n"), 42).Result()), 42)
	expect("INCRBYFLOAT", must(r.IncrByFloat(ctx, key("f"), 0.5).Result()), 0.5)
	err := r.Incr(ctx, key("binary")).Err()
	expect("INCR of bytes", err != nil && strings.Contains(err.Error(), "not an integer"), true)
}

func expiry() {
	r, other := client(0), client(1)
	must(r.Set(ctx, key("brief"), "x", 50*time.Millisecond).Result())
	eventually("the end of a key", func() bool { return errors.Is(other.Get(ctx, key("brief")).Err(), redis.Nil) })
	must(r.Set(ctx, key("long"), "x", 1000*time.Second).Result())
	ttl := must(other.TTL(ctx, key("long")).Result())
	expect("TTL", ttl > 990*time.Second && ttl <= 1000*time.Second, true)
	expect("PERSIST", must(r.Persist(ctx, key("long")).Result()), true)
	expect("TTL of no end", must(other.TTL(ctx, key("long")).Result()), time.Duration(-1))
}

func pipelines() {
	r := client(0)
	replies := must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := 0; n < 2000; n++ {
			pipe.Set(ctx, key("pipe:"+strconv.Itoa(n)), n, 0)
			pipe.Get(ctx, key("pipe:"+strconv.Itoa(n)))
		}
		return nil
	}))
	expect("replies", len(replies), 4000)
	for n := 0; n < 2000; n++ {
		expect("a reply", replies[2*n+1].(*redis.StringCmd).Val(), strconv.Itoa(n))
	}
	replies = must(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key("{t}a"), 1, 0)
		pipe.Incr(ctx, key("{t}a"))
		return nil
	}))
	expect("a transaction", replies[1].(*redis.IntCmd).Val(), 2)
}

// Transactions of eight goroutines on all servers: every increment counts once.
func watch() {
	counter := key("{w}counter")
	must(client(0).Set(ctx, counter, 0, 0).Result())
	together(8, func(number int) {
		own := client(number)
		for done := 0; done < 20; {
			err := own.Watch(ctx, func(tx *redis.Tx) error {
				value, err := tx.Get(ctx, counter).Int()
				if err != nil {
					return err
				}
				_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.Set(ctx, counter, value+1, 0)
					return nil
				})
				return err
			}, counter)
			if err == nil {
				done++
			} else if !errors.Is(err, redis.TxFailedErr) {
				panic(wrong{err.Error()})
			}
		}
	})
	expect("the sum", must(client(3).Get(ctx, counter).Int()), 160)
}

func pool() {
	shared := client(0, func(options *redis.Options) { options.PoolSize = 4; options.PoolTimeout = 20 * time.Second })
	together(16, func(number int) {
		for n := 1; n <= 100; n++ {
			expect("INCR", must(shared.Incr(ctx, key(fmt.Sprintf("pool:%d", number))).Result()), int64(n))
		}
	})
}

func scans() {
	r := client(0)
	pairs := map[string]interface{}{}
	for n := 0; n < 300; n++ {
		pairs[key(fmt.Sprintf("scan:%d", n))] = n
	}
	must(r.MSet(ctx, pairs).Result())
	found := map[string]bool{}
	iterator := client(1).Scan(ctx, 0, key("scan:*"), 50).Iterator()
	for iterator.Next(ctx) {
		found[iterator.Val()] = true
	}
	must(0, iterator.Err())
	expect("keys", len(found), 300)
	for name := range pairs {
		expect(name, found[name], true)
	}
}

func pubsub() {
	listener := client(0).Subscribe(ctx, key("channel"))
	defer listener.Close()
	must(listener.Receive(ctx))
	speaker := client(1)
	eventually("a subscriber", func() bool { return must(speaker.Publish(ctx, key("channel"), "hello").Result()) == 1 })
	message := must(listener.ReceiveMessage(ctx))
	expect("a message", message.Payload, "hello")
}

// go-redis speaks RESP3 unless it is told not to.
func versionTwo() {
	r := client(1, func(options *redis.Options) { options.Protocol = 2 })
	must(r.Set(ctx, key("two"), "x", 0).Result())
	expect("GET", must(r.Get(ctx, key("two")).Result()), "x")
	expect("GET of none", errors.Is(r.Get(ctx, key("none")).Err(), redis.Nil), true)
}

func databases() {
	in := func(number int) func(*redis.Options) { return func(options *redis.Options) { options.DB = number } }
	must(client(0, in(1)).Set(ctx, key("a"), "one", 0).Result())
	must(client(0, in(2)).Set(ctx, key("a"), "two", 0).Result())
	expect("database 1", must(client(1, in(1)).Get(ctx, key("a")).Result()), "one")
	expect("database 2", must(client(1, in(2)).Get(ctx, key("a")).Result()), "two")
}

func cluster() {
	r := redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers, ReadTimeout: 20 * time.Second})
	defer r.Close()
	together(4, func(number int) {
		for n := number; n < 500; n += 4 {
			must(r.Set(ctx, key(fmt.Sprintf("c:%d", n)), n, 0).Result())
		}
	})
	plain := client(2)
	for n := 0; n < 500; n++ {
		expect("of the cluster", must(r.Get(ctx, key(fmt.Sprintf("c:%d", n))).Int()), n)
		expect("of one server", must(plain.Get(ctx, key(fmt.Sprintf("c:%d", n))).Int()), n)
	}
	must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for n := 0; n < 500; n++ {
			pipe.Incr(ctx, key(fmt.Sprintf("c:%d", n)))
		}
		return nil
	}))
	expect("after a pipeline", must(plain.Get(ctx, key("c:499")).Int()), 500)
	must(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, key("{m}a"), 1, 0)
		pipe.Incr(ctx, key("{m}b"))
		return nil
	}))
	// Each server shows its own keys, together each once.
	var guard sync.Mutex
	met := map[string]int{}
	if err := r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		pages := node.Scan(ctx, 0, key("c:*"), 100).Iterator()
		for pages.Next(ctx) {
			guard.Lock()
			met[pages.Val()]++
			guard.Unlock()
		}
		return pages.Err()
	}); err != nil {
		panic(err)
	}
	expect("different keys met", len(met), 500)
	for name, times := range met {
		expect(name, times, 1)
	}
	expect("keys counted", must(r.DBSize(ctx).Result()), must(plain.DBSize(ctx).Result()))
}

// An account of its own, at all servers: made, tried and removed.
func accounts() {
	r := client(0)
	name := fmt.Sprintf("go-%d", os.Getpid())
	password := must(r.Do(ctx, "ACL", "GENPASS").Text())
	must(r.Do(ctx, "ACL", "SETUSER", name, "on", ">"+password, "~"+key("mine:*"), "+@read", "+@write", "+@connection").Result())
	as := func(password string) *redis.Client {
		return client(1, func(o *redis.Options) { o.Username, o.Password = name, password })
	}
	own := as(password)
	defer own.Close()
	eventually("the account at another server", func() bool { return own.Set(ctx, key("mine:1"), "x", 0).Err() == nil })
	expect("an own key", must(own.Get(ctx, key("mine:1")).Result()), "x")
	for what, err := range map[string]error{
		"another key": own.Get(ctx, key("other")).Err(), "everything": own.FlushAll(ctx).Err(),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
			panic(fmt.Sprintf("%s: %v", what, err))
		}
	}
	stranger := as("wrong")
	defer stranger.Close()
	if err := stranger.Get(ctx, key("mine:1")).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		panic(fmt.Sprintf("a wrong password: %v", err))
	}
	expect("removed", must(r.Do(ctx, "ACL", "DELUSER", name).Int()), 1)
}

func together(count int, work func(int)) {
	var all sync.WaitGroup
	found := make(chan interface{}, count)
	for number := 0; number < count; number++ {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			defer func() {
				if what := recover(); what != nil {
					found <- what
				}
			}()
			work(number)
		}(number)
	}
	all.Wait()
	select {
	case what := <-found:
		panic(what)
	default:
	}
}

func main() {
	topics := []struct {
		name string
		play func()
	}{
		{"values", values}, {"expiry", expiry}, {"pipelines", pipelines}, {"watch", watch}, {"pool", pool},
		{"scans", scans}, {"pubsub", pubsub}, {"version two", versionTwo}, {"databases", databases},
		{"accounts", accounts},
	}
	if os.Getenv("RAMHOLD_RESP_CLUSTER") == "1" {
		topics = append(topics, struct {
			name string
			play func()
		}{"cluster", cluster})
	}
	failed := 0
	for _, topic := range topics {
		func() {
			defer func() {
				if what := recover(); what != nil {
					failed++
					fmt.Printf("  %s: FAILED: %v\n", topic.name, what)
					return
				}
				fmt.Printf("  %s: ok\n", topic.name)
			}()
			topic.play()
		}()
	}
	if failed > 0 {
		fmt.Printf("go-redis %s: %d topics failed\n", redis.Version(), failed)
		os.Exit(1)
	}
	fmt.Printf("go-redis %s: ok\n", redis.Version())
}
