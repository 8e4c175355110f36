// SPDX-License-Identifier: MIT OR Apache-2.0
/** Threads that compute inside one monitor (bench/causes/run). */
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

    public static void main(String[] args) throws InterruptedException {
        Thread[] tellers = new Thread[4];
        for (int k = 0; k < tellers.length; k++) {
            tellers[k] = new Thread(() -> {
                for (int i = 0; i < 40; i++) {
                    transfer(i);
                }
            });
            tellers[k].start();
        }
        for (Thread teller : tellers) {
            teller.join();
        }
    }
}
