// SPDX-License-Identifier: MIT OR Apache-2.0
import java.util.Arrays;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.stream.IntStream;

/** Threads that compute inside one monitor; items of a parallel stream that sleep; or threads that are all notified, of which one may go on
 * (bench/causes/run): the argument says which. */
public class Scenes {
    static final Object BANK = new Object();
    static long sum;

    static long audit(long s) {
        for (int i = 0; i < 6000000; i++) {
            s = s * 31 ^ i;
        }
        return s;
    }

    static void transfer(long n) {
        synchronized (BANK) {
            sum += audit(n);
        }
    }

    static int fetchPrice(int item) {
        try {
            Thread.sleep(20);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return item;
    }

    static final int PLAYERS = 24;
    static final ReentrantLock TABLE = new ReentrantLock();
    static int turn;

    /** Each waits for its turn: for a condition of its own, or, without any, all in one monitor. */
    static void play(int own, Condition[] turns) {
        try {
            for (int i = 0; i < 150; i++) {
                if (turns != null) {
                    TABLE.lock();
                    while (turn != own) {
                        turns[own].await();
                    }
                    sum += own;
                    turn = (turn + 1) % PLAYERS;
                    turns[turn].signal();
                    TABLE.unlock();
                } else {
                    synchronized (BANK) {
                        while (turn != own) {
                            BANK.wait();
                        }
                        sum += own;
                        turn = (turn + 1) % PLAYERS;
                        BANK.notifyAll();
                    }
                }
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void startAndJoin(Thread[] threads) throws InterruptedException {
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    public static void main(String[] args) throws InterruptedException {
        if (args.length > 0 && args[0].equals("asleep")) {
            System.out.println(IntStream.range(0, 80).parallel().map(Scenes::fetchPrice).sum());
            return;
        }
        if (args.length > 0 && args[0].equals("notified")) {
            Condition[] turns = args.length > 1 ? new Condition[PLAYERS] : null;
            if (turns != null) {
                Arrays.setAll(turns, k -> TABLE.newCondition());
            }
            Thread[] players = new Thread[PLAYERS];
            Arrays.setAll(players, k -> new Thread(() -> play(k, turns)));
            startAndJoin(players);
            return;
        }
        Thread[] tellers = new Thread[4];
        for (int k = 0; k < tellers.length; k++) {
            tellers[k] = new Thread(() -> {
                for (int i = 0; i < 40; i++) {
                    transfer(i);
                }
            });
        }
        startAndJoin(tellers);
    }
}
